#include "instances/gemm/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "instances/gemm/cuda_rows.hpp"

namespace tilesmith {
namespace {

/// The results worth listing for matrices of a type.
std::vector<DataType> results_of(DataType type) {
  switch (type) {
    case DataType::int8:
      return {DataType::int32, DataType::bf16, DataType::fp32, DataType::int8};
    case DataType::fp8:
    case DataType::bf8:
      return {DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp8};
    case DataType::fp32:
    case DataType::tf32:
      return {DataType::fp32};
    default:
      return {type, DataType::fp32};
  }
}

}  // namespace

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
      const Algorithm algorithm = algorithm_of(signature, pipeline, row);
      if (std::ranges::find(seen, algorithm) != seen.end()) continue;
      seen.push_back(algorithm);
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
  GemmSignature signature;
  for (const DataType type : types)
    for (const DataType result : results_of(type))
      for (const MatrixOrder order_a : {MatrixOrder::row, MatrixOrder::column})
        for (const MatrixOrder order_b : {MatrixOrder::column, MatrixOrder::row}) {
          if (!layout.empty() && layout != fmt::format("{}{}r", name_of(order_a), name_of(order_b))) continue;
          for (const GemmEpilogue& epilogue : spec.gemm.epilogues) {
            if (result == DataType::int32 && !epilogue.empty()) continue;
            const bool has_bias = std::ranges::any_of(
                epilogue, [](EpilogueOp op) { return op == EpilogueOp::bias || op == EpilogueOp::bias_m; });
            const bool wide = result == DataType::fp32 || result == DataType::fp16 || result == DataType::bf16;
            signature.layout_a = order_a;
            signature.layout_b = order_b;
            signature.a = signature.b = type;
            signature.c = signature.aux = result;
            signature.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
            signature.bias = !has_bias ? GemmSignature{}.bias : wide ? result : DataType::fp32;
            signature.epilogue_ops = epilogue;
            if (!sink(signature)) return;
          }
        }
}

}  // namespace tilesmith
