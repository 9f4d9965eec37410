// Arrays of the small floating-point formats, several elements at a time: references read every element of their inputs
// many times, and naive computations round what they store.
#pragma once

#include <cstddef>

#include "base/float_types.hpp"

namespace tilesmith {

/// target[i] is the number that the i-th of `count` codes stands for, as decode_float gives it. Codes take one byte or
/// two, by the format's bits, and need no alignment.
void decode_floats(const FloatFormat& format, const void* codes, float* target, std::size_t count);
void decode_floats(const FloatFormat& format, const void* codes, double* target, std::size_t count);

/// The codes of `count` numbers, as encode_float gives them. They need no alignment.
void encode_floats(const FloatFormat& format, const float* source, void* codes, std::size_t count);

}  // namespace tilesmith
