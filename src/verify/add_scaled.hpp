// The inner loop of the naive computations of all operations.
#pragma once

#include <cstdint>

namespace tilesmith {

/// target += weight * source, in fp32.
void add_scaled(float* target, const float* source, float weight, std::int64_t count);

}  // namespace tilesmith
