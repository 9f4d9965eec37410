// Element types of the GEMM template: sizes, and elements to and from float32.
#pragma once

#include "../common/chunk.h"
#include "abi.h"

namespace ts::gemm {

constexpr int bytes_of(int type) {
  return type == TS_GEMM_F32 || type == TS_GEMM_S32 ? 4 : (type == TS_GEMM_BF16 || type == TS_GEMM_F16 ? 2 : 1);
}

// Four fp8 elements (e4m3) for a matrix unit of the encoding fnuz: there the same bits mean half the number, those of
// -0 mean NaN, and those of NaN the largest number.
TS_DEVICE u32 recode_fp8(u32 bits) {
  const u32 magnitudes = bits & 0x7f7f7f7f;
  const u32 signs = bits & (magnitudes + 0x7f7f7f7f) & 0x80808080;  // of what is not zero
  const u32 nan = (magnitudes + 0x01010101) & 0x80808080;
  const u32 of_nan = nan | (nan - (nan >> 7));  // all bits of their bytes
  return ((magnitudes | signs) & ~of_nan) | nan;
}
// What sums are multiplied by, where operands are halves.
constexpr float kOfHalves = cfg::kFnuz ? 4.0f : 1.0f;

template <int kType>
TS_DEVICE float to_float(typename BitsOf<bytes_of(kType)>::Type bits) {
  if constexpr (kType == TS_GEMM_F32) return __builtin_bit_cast(float, bits);
  if constexpr (kType == TS_GEMM_BF16) return from_bf16(bits);
  if constexpr (kType == TS_GEMM_F16) return from_f16(bits);
}

// Rounds to nearest even. An s32 passes through with its bits: integer sums are stored as they are.
template <int kType>
TS_DEVICE auto from_float(float value) {
  if constexpr (kType == TS_GEMM_BF16) return to_bf16(value);
  if constexpr (kType == TS_GEMM_F16) return to_f16(value);
  if constexpr (bytes_of(kType) == 4) return __builtin_bit_cast(u32, value);
}

// `kCount` neighbouring elements of memory; those from `count` on are zeros. kWide: all are there or none, at an
// address that is a multiple of their size.
template <int kType, int kCount, bool kWide>
TS_DEVICE void load_elements(const void* from, int count, float (&values)[kCount]) {
  using Bits = BitsOf<bytes_of(kType)>::Type;
  if constexpr (kWide) {
    typedef Bits Run __attribute__((vector_size(kCount * bytes_of(kType))));
    const Run run = count > 0 ? *static_cast<const Run*>(from) : Run{};
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = to_float<kType>(run[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = i < count ? to_float<kType>(static_cast<const Bits*>(from)[i]) : 0.0f;
  }
}

template <int kType, int kCount, bool kWide>
TS_DEVICE void store_elements(void* to, int count, const float (&values)[kCount]) {
  using Bits = BitsOf<bytes_of(kType)>::Type;
  if constexpr (kWide) {
    typedef Bits Run __attribute__((vector_size(kCount * bytes_of(kType))));
    Run run;
#pragma unroll
    for (int i = 0; i < kCount; ++i) run[i] = from_float<kType>(values[i]);
    if (count > 0) *static_cast<Run*>(to) = run;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < count) static_cast<Bits*>(to)[i] = from_float<kType>(values[i]);
  }
}

}  // namespace ts::gemm
