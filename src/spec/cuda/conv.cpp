#include "spec/cuda/conv.hpp"

#include <algorithm>

namespace tilesmith {

const CudaGemmPipeline* CudaConvSpec::pipeline(Pipeline pipeline) const {
  const auto found = std::ranges::find(pipelines, pipeline, &CudaGemmPipeline::pipeline);
  return found == pipelines.end() ? nullptr : &*found;
}

Result<CudaConvSpec> read_cuda_conv(const JsonReader& reader) {
  TS_TRY(reader.only({"epilogues", "pipelines"}));
  CudaConvSpec spec;
  TS_ASSIGN(spec.epilogues, read_cuda_epilogues(reader.at("epilogues")));
  TS_ASSIGN(spec.pipelines, read_cuda_pipelines(reader.at("pipelines")));
  return spec;
}

}  // namespace tilesmith
