// Where the blocks of a launch come to lie that may start while the launch before ends.
#pragma once

#include <algorithm>

#include "runtime/cuda/kernel.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// Blocks are no more than SMs. Beside blocks of the launch before, they would come to SMs in pairs while others have
/// none: 128 blocks to 86 SMs of 132. So each asks for more than half of an SM's memory.
inline void keep_apart(const CudaSpec& spec, CudaLaunch& launch) {
  if (!launch.overlaps_previous || launch.dynamic_shared_bytes <= kMuchSharedMemory) return;
  const long more_than_half = spec.shared_bytes_per_sm / 2 - spec.shared_bytes_reserved + 16;
  launch.dynamic_shared_bytes = std::max(launch.dynamic_shared_bytes, static_cast<unsigned>(more_than_half));
}

}  // namespace tilesmith
