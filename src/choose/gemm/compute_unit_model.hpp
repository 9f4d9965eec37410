// What a tiled GEMM is predicted to take on a GPU of compute units, from the chip's public figures alone: the same for
// own kernels and for Composable Kernel's.
#pragma once

#include <cstdint>

#include "spec/reference_chip.hpp"
#include "vocabulary/algorithm.hpp"

namespace tilesmith {

struct ComputeUnitTile {
  int m = 0, n = 0, k = 0;       ///< of a block
  int waves_m = 0, waves_n = 0;  ///< which share its rows and columns
  double element_bytes = 0;      ///< of A and B
  bool aligned = true;           ///< else its elements are fetched one by one
  bool b_in_fragments = false;   ///< B lies in the order of the matrix instruction's fragments
  int blocks_per_cu = 1;
  double matrix_share = 1;  ///< of the unit's rate that its waves and their fragments reach
};

/// A batch of products of one size.
struct ComputeUnitProduct {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double bytes = 0;  ///< that pass through memory
};

/// Of a step of k on a block's share of a compute unit: the slowest of products, local memory and cache, which work
/// side by side. `type` is that of A.
[[nodiscard]] double step_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type);

/// Of a kernel with a block for each tile.
[[nodiscard]] double predicted_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type,
                                       const ComputeUnitProduct& product);

}  // namespace tilesmith
