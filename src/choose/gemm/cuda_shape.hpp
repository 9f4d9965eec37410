// The sizes of a GEMM problem, as far as they decide between CUDA instances, and which instances compute them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "choose/padded_rows.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// All sizes are at least 1, but for k and k2.
struct CudaGemmShape {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  std::int64_t batch = 1;
  bool unaligned = false;                      ///< a pointer, row or batch stride is no multiple of 16 bytes
  GemmGrouping grouping = GemmGrouping::none;  ///< contiguous: m rows of all members together
  std::int64_t k2 = 0;                         ///< of a second GEMM that is added; 0: there is none
  bool prefetch_weights = false;               ///< no kernel before, that may still run, writes B
  bool aligned_d = false;                      ///< `unaligned` is said of A and B alone
  bool may_pad = false;                        ///< A and B may be copied to rows of whole 16 bytes first
  bool may_place = true;                       ///< a launch may begin its blocks in clusters that share nothing
};

[[nodiscard]] CudaGemmShape cuda_gemm_shape(const GemmProblem& problem);

/// Whether a tile of so many rows is too low for the shape, on a pipeline whose kernels have one row of tiles.
[[nodiscard]] constexpr bool lacks_rows(Pipeline pipeline, std::int64_t tile_m, const CudaGemmShape& shape) {
  return (pipeline == Pipeline::skinny_tma || pipeline == Pipeline::skinny) && shape.m > tile_m;
}

/// Why an instance does not compute problems of this shape: rows that a skinny kernel does not hold, columns or
/// alignment that do not suit its accesses. Empty: it computes them. `facts` are the config's, whatever its stages are.
[[nodiscard]] std::string_view cuda_gemm_obstacle(const KernelConfig& config, const CudaGemmResources& facts,
                                                  const CudaGemmShape& shape);
[[nodiscard]] std::string_view cuda_gemm_obstacle(const KernelConfig& config, const CudaGemmShape& shape);
[[nodiscard]] inline bool cuda_gemm_suits(const KernelConfig& config, const CudaGemmShape& shape) {
  return cuda_gemm_obstacle(config, shape).empty();
}

/// Whether A and B, where their rows are no whole 16 bytes, are copied to such for this instance.
[[nodiscard]] bool cuda_gemm_pads(const KernelConfig& config, const CudaGemmShape& shape);

/// A and B as they are copied then, both of them, as either may be what is not aligned.
struct CudaGemmPadding {
  PaddedRows a, b;
  [[nodiscard]] std::int64_t bytes() const { return a.bytes() + b.bytes(); }
};
[[nodiscard]] CudaGemmPadding cuda_gemm_padding(const GemmSignature& signature, const CudaGemmShape& shape);

/// Steps of `step` elements along k; a second GEMM begins with a step of its own.
[[nodiscard]] std::int64_t cuda_gemm_steps(const CudaGemmShape& shape, std::int64_t step);

/// Tiles of A x B, whole clusters of them, over the whole batch; of groups, the most there may be.
[[nodiscard]] std::int64_t cuda_gemm_tiles(const KernelConfig& config, const CudaGemmShape& shape);

}  // namespace tilesmith
