// What an attention kernel is predicted to take on a GPU of compute units, from the chip's public figures alone.
// Nothing of it was measured: no AMD GPU was at hand.
#pragma once

#include <cstdint>

#include "spec/hip/spec.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

/// The work of one kernel whose blocks walk over blocks of keys.
struct ComputeUnitAttention {
  std::int64_t blocks = 0;     ///< that the grid has
  double steps = 0;            ///< blocks of keys that each walks over, on average
  double flops_of_step = 0;    ///< of the matrix unit
  double scores_of_step = 0;   ///< that pass through the exponential
  double local_of_step = 0;    ///< bytes to and from local memory, by all waves
  double fetched_of_step = 0;  ///< bytes that come through the cache
  double memory_bytes = 0;     ///< of the whole kernel, each byte once
  int waves_per_simd = 1;
  int blocks_per_cu = 1;
};
[[nodiscard]] double seconds_of(const ComputeUnitAttention& work, const HipReferenceChip& chip, DataType type);

/// Of a kernel that passes so many bytes through memory, and does little else.
[[nodiscard]] double seconds_of_pass(double bytes, const HipReferenceChip& chip);

}  // namespace tilesmith
