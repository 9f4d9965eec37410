#include "instances/conv/cuda_asked.hpp"

#include <utility>

#include "instances/conv/cuda_pipelines.hpp"

namespace tilesmith {

CudaConvAsked::CudaConvAsked(const CudaSpec& spec, const ConvSignature& signature)
    : spec_(spec), config_{.arch = spec.arch, .signature = signature, .algorithm = {}} {
  for (const CudaGemmPipeline& pipeline : spec.conv.pipelines)
    if (cuda_conv_pipeline(pipeline.pipeline) != nullptr) pipelines_.push_back({.pipeline = &pipeline, .kernels = {}});
}

void CudaConvAsked::make(Kernels& kernels) const {
  if (std::exchange(kernels.are_made, true)) return;
  const CudaConvPipeline* own = cuda_conv_pipeline(kernels.pipeline->pipeline);
  for (const CudaGemmTile& row : kernels.pipeline->tiles)
    for (const Algorithm& algorithm : own->algorithms(std::get<ConvSignature>(config_.signature), row))
      kernels.kernels.push_back({.algorithm = algorithm, .row = &row});
}

bool CudaConvAsked::walk(const CudaConvVisit& visit, const CudaConvWanted& wanted) {
  for (Kernels& kernels : pipelines_) {
    if (wanted.pipeline && !wanted.pipeline(kernels.pipeline->pipeline)) continue;
    make(kernels);
    for (Kernel& kernel : kernels.kernels) {
      config_.algorithm = kernel.algorithm;
      if (wanted.config && !wanted.config(config_)) continue;
      if (!std::exchange(kernel.is_asked, true)) kernel.refused = cuda_conv_refusal({config_, spec_});
      if (!visit(config_, *kernel.row, kernel.refused)) return false;
    }
  }
  return true;
}

}  // namespace tilesmith
