// What an attention kernel is predicted to take on a GPU of compute units, from the chip's public figures alone: the
// same for own kernels and for Composable Kernel's. Nothing of it was measured: no AMD GPU was at hand.
#pragma once

#include <cstdint>

#include "spec/reference_chip.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

/// The work of one kernel whose blocks walk over blocks of keys or of queries.
struct ComputeUnitAttention {
  std::int64_t blocks = 0;     ///< that the grid has
  double steps = 0;            ///< blocks of the other side that each walks over, on average
  double flops_of_step = 0;    ///< of the matrix unit
  double scores_of_step = 0;   ///< that pass through the exponential
  double local_of_step = 0;    ///< bytes read from local memory, by all waves
  double fetched_of_step = 0;  ///< bytes that come through the cache
  double memory_bytes = 0;     ///< of the whole kernel, each byte once
  int blocks_per_cu = 1;
  double busy_share = 1;  ///< of a unit's SIMDs that the waves of its blocks keep busy
};
[[nodiscard]] double seconds_of(const ComputeUnitAttention& work, const ReferenceChip& chip, DataType type);

}  // namespace tilesmith
