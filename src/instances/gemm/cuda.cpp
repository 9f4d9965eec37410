#include "instances/gemm/cuda.hpp"

#include <algorithm>

#include "instances/gemm/cuda_rows.hpp"
#include "instances/gemm/listed_signatures.hpp"

namespace tilesmith {
std::vector<CudaGemmWidths> cuda_gemm_widths(const GemmSignature& signature, Pipeline pipeline) {
  const int bytes = bits_of(signature.a) / 8, result_bytes = bits_of(signature.c) / 8;
  if (bytes == 0 || result_bytes == 0) return {};
  const auto wide = static_cast<std::uint8_t>(16 / bytes), box = static_cast<std::uint8_t>(16 / result_bytes);
  std::vector<CudaGemmWidths> widths;
  if (pipeline == Pipeline::warp_specialized || pipeline == Pipeline::weight_only) widths.push_back({wide, wide, box});
  widths.push_back({wide, wide, 2});
  widths.push_back({wide, wide, 1});
  if (pipeline == Pipeline::mma_sm80) widths.push_back({1, 1, 1});
  return widths;
}

void enumerate_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, ConfigSink sink) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines) {
    if (refusal_of_pipeline(config, pipeline, spec) != nullptr) continue;
    const std::vector<CudaGemmWidths> all_widths = cuda_gemm_widths(signature, pipeline.pipeline);
    std::vector<Algorithm> seen;  // a tile may be the first choice for several shapes
    for (const CudaGemmTile& row : pipeline.tiles) {
      if (!is_meant_for(signature, pipeline, row)) continue;
      Algorithm algorithm = algorithm_of(signature, pipeline, row);
      if (std::ranges::find(seen, algorithm) != seen.end()) continue;
      seen.push_back(algorithm);
      for (int blocks = row.cluster_k == 1 ? 1 : 2; blocks <= row.cluster_k; ++blocks) {
        algorithm.cluster_k = static_cast<std::uint8_t>(blocks);
        config.algorithm = algorithm;
        if (refusal_of_tile(config, spec) != nullptr) continue;
        for (const CudaGemmWidths& widths : all_widths) {
          config.algorithm.prefetch_weights = false;
          config.algorithm.vector = widths;
          if (refusal_of_access(config, row, spec) != nullptr) continue;
          if (!sink(config)) return;
          if (pipeline.pipeline != Pipeline::skinny_tma) continue;
          config.algorithm.prefetch_weights = true;
          if (!sink(config)) return;
        }
      }
    }
  }
}

void enumerate_cuda_gemm(const CudaSpec& spec, std::string_view layout, ConfigSink sink) {
  bool wanted = true;
  const auto forward = [&](const KernelConfig& config) { return wanted = sink(config); };
  listed_gemm_signatures(spec, layout, [&](const GemmSignature& signature) {
    enumerate_cuda_gemm(spec, signature, forward);
    return wanted;
  });
}

void listed_gemm_signatures(const CudaSpec& spec, std::string_view layout, GemmSignatureSink sink) {
  std::vector<DataType> types;
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines)
    for (const DataType type : pipeline.data_types)
      if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  listed_gemm_signatures(types, spec.gemm.epilogues, layout, sink);
}

}  // namespace tilesmith
