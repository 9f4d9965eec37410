// Elements of tensors, one or several neighbours at a time, as floats.
//
// ts::cfg says what they are: kFp32, or else kBf16 (bf16, else fp16).
#pragma once

#include "../common/common.cuh"

namespace ts {

constexpr int kElementBytes = cfg::kFp32 ? 4 : 2;

TS_DEVICE float to_float(unsigned short bits) {
  if constexpr (cfg::kBf16) return __uint_as_float(static_cast<u32>(bits) << 16);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// kCount neighbours: of one, no alignment is asked beyond an element's; else their whole size.
template <int kCount>
TS_DEVICE void load_elements(const char* from, float (&to)[kCount]) {
  static_assert(kCount == 1 || kCount % 4 == 0, "single elements, or groups of four");
  if constexpr (cfg::kFp32) {
    if constexpr (kCount == 1) {
      to[0] = *reinterpret_cast<const float*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + 4 * i);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
      }
    }
  } else if constexpr (kCount == 1) {
    to[0] = to_float(*reinterpret_cast<const unsigned short*>(from));
  } else {
    u32 pairs[kCount / 2];
    if constexpr (kCount == 4) {
      const uint2 two = *reinterpret_cast<const uint2*>(from);
      pairs[0] = two.x, pairs[1] = two.y;
    } else {
#pragma unroll
      for (int i = 0; i < kCount / 2; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(from + 4 * i);
        pairs[i] = four.x, pairs[i + 1] = four.y, pairs[i + 2] = four.z, pairs[i + 3] = four.w;
      }
    }
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      to[2 * i] = to_float(static_cast<unsigned short>(pairs[i]));
      to[2 * i + 1] = to_float(static_cast<unsigned short>(pairs[i] >> 16));
    }
  }
}

template <int kCount>
TS_DEVICE void store_elements(const float (&from)[kCount], char* to) {
  if constexpr (cfg::kFp32) {
    if constexpr (kCount == 1) {
      *reinterpret_cast<float*>(to) = from[0];
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 4)
        *reinterpret_cast<float4*>(to + 4 * i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    }
  } else if constexpr (kCount == 1) {
    *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(pack<cfg::kBf16>(from[0], 0.0f));
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const uint2 two = make_uint2(pack<cfg::kBf16>(from[i], from[i + 1]), pack<cfg::kBf16>(from[i + 2], from[i + 3]));
      *reinterpret_cast<uint2*>(to + 2 * i) = two;
    }
  }
}

}  // namespace ts
