// How many blocks of threads share the walk of a block of keys in attention backward on CUDA.
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/attention_backward.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Parts of a walk over the tiles of a group's heads (kernels/cuda/attention/backward/hopper/items.cuh, rows/item.cuh).
struct CudaWalkParts {
  std::int64_t of_heads = 1;  ///< divides the heads of a group
  std::int64_t of_tiles = 1;  ///< of each head

  [[nodiscard]] std::int64_t all() const { return of_heads * of_tiles; }
};

/// Those that should take the least time where heads of keys have fewer blocks than the chip has SMs. Heads are shared
/// out first.
[[nodiscard]] CudaWalkParts cuda_walk_parts(const AttentionBackwardProblem& problem, const KernelConfig& products,
                                            const CudaSpec& spec);

/// Of the five products of a tile of queries and a block of keys.
[[nodiscard]] double backward_step_flops(const AttentionBackwardProblem& problem, double tile, double keys);

/// That a part's sums of dk and dv are stored and read with, for a block of so many keys.
[[nodiscard]] double walk_part_bytes(const AttentionBackwardProblem& problem, double keys);

}  // namespace tilesmith
