#include "choose/gemm/cuda_shape.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "instances/gemm/family.hpp"
#include "problem/gemm/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

CudaGemmShape cuda_gemm_shape(const GemmProblem& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .unaligned = p.unaligned,
          .grouping = p.grouping,
          .k2 = p.k2,
          .prefetch_weights = p.prefetch_weights,
          .aligned_d = p.aligned_d,
          .may_pad = true};
}

std::string_view cuda_gemm_obstacle(const KernelConfig& config, const CudaGemmShape& shape) {
  return cuda_gemm_obstacle(config, cuda_gemm_resources(config), shape);
}

std::string_view cuda_gemm_obstacle(const KernelConfig& config, const CudaGemmResources& facts,
                                    const CudaGemmShape& shape) {
  const auto& g = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  if (lacks_rows(a.pipeline, a.tile[0], shape)) return "a skinny kernel has a row of its tile for every row of A";
  if (shape.k == 0 && a.pipeline != Pipeline::mma_sm80) return "only mma_sm80 goes on without a single step of k";
  if (a.cluster_k > 1 && cuda_gemm_steps(shape, facts.stage_k) < a.cluster_k)
    return "each block of a cluster that shares a tile by k has a step of it";
  // The cp.async stream reads whole 16 bytes of k and may not pass the row's end.
  if (a.pipeline == Pipeline::skinny && shape.k * facts.bits_of_b % 128 != 0)
    return "skinny reads whole 16 bytes along k";
  if (a.prefetch_weights && !shape.prefetch_weights)
    return "it reads B before the kernel in front of it has ended, and B may still be written";
  if (shape.unaligned && ((facts.aligned && !cuda_gemm_pads(config, shape)) || (facts.pairs && !shape.aligned_d)))
    return "its accesses are wider than the problem's alignment";
  if (facts.pairs && shape.n % 2 != 0) return "it accesses D by pairs, and n is odd";
  const std::int64_t columns = g.epilogue_ops.gated() ? shape.n / 2 : shape.n;
  if (facts.store_box && columns * facts.result_bytes % 16 != 0)
    return "it stores D by the copy engine, whose rows are multiples of 16 bytes";
  return {};
}

bool cuda_gemm_pads(const KernelConfig& config, const CudaGemmShape& shape) {
  const auto& g = std::get<GemmSignature>(config.signature);
  return shape.unaligned && shape.may_pad && config.algorithm.pipeline == Pipeline::warp_specialized &&
         shape.grouping == GemmGrouping::none && shape.k2 == 0 && !has_block_scales(g) && shape.k > 0 &&
         cuda_gemm_padding(g, shape).bytes() <= kMostPaddedBytes;
}

CudaGemmPadding cuda_gemm_padding(const GemmSignature& g, const CudaGemmShape& shape) {
  const auto of = [&](bool along_k, std::int64_t across, DataType type) {
    return PaddedRows{.batch = shape.batch,
                      .rows = along_k ? across : shape.k,
                      .row_bytes = (along_k ? shape.k : across) * bits_of(type) / 8};
  };
  return {of(g.layout_a == MatrixOrder::row, shape.m, g.a), of(g.layout_b == MatrixOrder::column, shape.n, g.b)};
}

std::int64_t cuda_gemm_steps(const CudaGemmShape& shape, std::int64_t step) {
  return ceil_div(shape.k, step) + ceil_div(shape.k2, step);
}

std::int64_t cuda_gemm_tiles(const KernelConfig& config, const CudaGemmShape& shape) {
  const Algorithm& a = config.algorithm;
  const std::int64_t m = std::int64_t{a.tile[0]} * a.cluster[0], n = std::int64_t{a.tile[1]} * a.cluster[1];
  const bool contiguous = shape.grouping == GemmGrouping::contiguous;
  // A contiguous group that has rows adds those that fill up its last tile.
  const std::int64_t groups_with_rows = contiguous ? std::min(shape.batch, shape.m) : shape.batch;
  const std::int64_t rows_of_tiles =
      contiguous ? (shape.m + groups_with_rows * (m - 1)) / m : shape.batch * ceil_div(shape.m, m);
  return rows_of_tiles * ceil_div(shape.n, n) * a.cluster[0] * a.cluster[1];
}

}  // namespace tilesmith
