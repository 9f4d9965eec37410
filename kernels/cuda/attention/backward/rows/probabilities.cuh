// How probabilities pass from one warpgroup to the other, in 16 bits each. A key that few queries see may owe its gradient to small
// ones alone, so they keep their bits however small they are.
//
// Of bf16 problems they are bits 29 to 14 of a float: below 2 neither the sign nor the exponent's first bit is ever set, which
// leaves seven bits of exponent and ten of the significand, two more than dS has. Of fp16 problems they are fp16 of 2^15 times
// themselves, eleven bits down to 2^-29 and steps of 2^-39 below, where dS has steps of 2^-24.
#pragma once

#include "../unpack.cuh"

namespace ts {

// log2 of what probabilities are multiplied by, and what undoes it.
constexpr float kProbabilityRaise = cfg::kBf16 ? 0.0f : 15.0f;
constexpr float kProbabilityLower = cfg::kBf16 ? 1.0f : 1.0f / 32768.0f;

TS_DEVICE u32 pack_probabilities(float low, float high) {
  if constexpr (!cfg::kBf16) return pack<false>(low, high);
  // Bit 29 moves to the top, half of the last bit that stays is added, and upper halves are joined.
  return __byte_perm(__float_as_uint(low) * 4 + 0x8000, __float_as_uint(high) * 4 + 0x8000, 0x7632);
}

// As they are, not raised.
TS_DEVICE float2 unpack_probabilities(u32 pair) {
  if constexpr (cfg::kBf16) {
    return {__uint_as_float(pair << 14 & 0x3fffc000u), __uint_as_float(pair >> 2 & 0x3fffc000u)};
  } else {
    const float2 raised = unpack<false>(pair);
    return {raised.x * kProbabilityLower, raised.y * kProbabilityLower};
  }
}

}  // namespace ts
