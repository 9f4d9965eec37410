// The inner loop of the naive computations of all operations.
#pragma once

#include <cstdint>

namespace tilesmith {

/// target += weights[0] sources[0] + weights[1] sources[1] + ..., in fp32 and in this order, of `rows` sources of
/// `count` elements, one behind the other.
void add_scaled(float* target, const float* sources, const float* weights, std::int64_t rows, std::int64_t count);

}  // namespace tilesmith
