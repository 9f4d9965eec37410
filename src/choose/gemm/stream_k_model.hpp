// What a stream-K GEMM is predicted to take on a GPU of compute units: whole rounds of tiles as of any kernel, and the
// tiles that are left shared out by steps of k, so that every block has as much to do; then what is shared is joined.
#pragma once

#include <cstdint>

#include "choose/gemm/compute_unit_model.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// How Composable Kernel's partitioner shares out tiles of `steps` steps among the blocks that a chip holds at a time:
/// none where the tiles fill whole rounds or their steps are fewer than the blocks, else those of the last round that
/// is not full, with one full round before it.
///   streamk_gemm_tile_partitioner_impl.hpp of Composable Kernel, 2026-05
struct StreamKShares {
  std::int64_t whole = 0;   ///< tiles of one block each
  std::int64_t shared = 0;  ///< tiles whose steps are shared out
  std::int64_t parts = 0;   ///< sums that a block leaves for another, which began the tile
};
[[nodiscard]] StreamKShares stream_k_shares(std::int64_t tiles, std::int64_t steps, std::int64_t blocks);

/// `reduction` is not none. `result_bytes` are those of an element of the result. The product is one, without a batch.
[[nodiscard]] double stream_k_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type,
                                      const ComputeUnitProduct& product, StreamKReduction reduction,
                                      double result_bytes);

}  // namespace tilesmith
