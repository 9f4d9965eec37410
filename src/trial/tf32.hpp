// Inputs that are tf32 numbers: devices with tf32 products round what is fp32 in memory, and a reference is to multiply
// the same numbers.
#pragma once

#include "base/host_array.hpp"

namespace tilesmith {

/// Rounds the values of an fp32 array to 10 bits of mantissa, to nearest.
void round_to_tf32(HostArray& array);

}  // namespace tilesmith
