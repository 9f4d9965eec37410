// Keys and values of 8 bits beside queries of 16: they stay as they are until a warp multiplies them.
//
// A matrix of 16-bit elements is read as pairs of narrow ones. So a thread gets four neighbours of a key where its
// operand wants two pairs of every fourth, and queries are stored in the order in which it gets them: columns 4q, 4q+1,
// 4q+2, 4q+3 of sixteen are places 2q, 2q+1, 8+2q, 8+2q+1 of the product's depth. Transposed, it gets two neighbours of
// two values: the even columns of sixteen become one product's, the odd ones another's.
#pragma once

#include "../../common/common.cuh"

namespace ts {

constexpr bool kNarrow = cfg::kCacheFp8 || cfg::kCacheInt8;
constexpr int kKeyBytes = kNarrow ? 1 : 2;          // of an element of keys and values
constexpr int kProductColumns = kNarrow ? 32 : 16;  // that a row is rounded up to
constexpr bool kScaledRows = cfg::kPageScale;       // each key and value has a scale of its own

// Narrow elements are exact in fp16 and one conversion away from it, of bf16 three; so products are of fp16. Queries of
// bf16 are brought into its range row by row, by powers of two. Probabilities are, but for scales of their own: with
// these they are multiplied first, and values are widened to bf16.
constexpr bool kScoresBf16 = cfg::kBf16 && !kNarrow;
constexpr bool kValuesBf16 = cfg::kBf16 && !(kNarrow && !kScaledRows);
constexpr bool kScaledQueries = cfg::kBf16 && kNarrow;
constexpr bool kBasedScales = kScaledRows && !kValuesBf16;  // probabilities times scales are of fp16: see ScaleBase

// Two numbers of fp16 as an operand's type.
template <bool kBf16>
TS_DEVICE u32 operand_of_halves(u32 halves) {
  if constexpr (!kBf16) return halves;
  float low, high;
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
      : "=f"(low), "=f"(high)
      : "r"(halves));
  return pack<true>(low, high);
}

// Four narrow elements as two pairs of an operand's type, without rounding.
template <bool kBf16>
TS_DEVICE void widen(u32 elements, u32 (&pairs)[2]) {
  if constexpr (cfg::kCacheFp8) {
    asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.rn.f16x2.e4m3x2 %0, a;\ncvt.rn.f16x2.e4m3x2 %1, b;\n}"
        : "=r"(pairs[0]), "=r"(pairs[1])
        : "r"(elements));
    pairs[0] = operand_of_halves<kBf16>(pairs[0]);
    pairs[1] = operand_of_halves<kBf16>(pairs[1]);
  } else {
    // Below the bits of 2^10 in fp16, or of 2^23 in fp32, stands an integer of 0 to 255: the number less the smallest.
    const u32 shifted = elements ^ 0x80808080u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (kBf16) {
        const float low = __int_as_float(__byte_perm(shifted, 0x4b000000u, 0x7440 + 2 * i)) - 8388736.0f;
        const float high = __int_as_float(__byte_perm(shifted, 0x4b000000u, 0x7441 + 2 * i)) - 8388736.0f;
        pairs[i] = pack<true>(low, high);
      } else {
        const u32 above = __byte_perm(shifted, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
        asm("sub.f16x2 %0, %1, %2;" : "=r"(pairs[i]) : "r"(above), "r"(0x64806480u));
      }
    }
  }
}

// Eight elements of a query, zeros where it has none.
TS_DEVICE void load_eight(u32 (&x)[4], const void* source, bool valid) {
  x[0] = x[1] = x[2] = x[3] = 0;
  if (valid)
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(source)
                 : "memory");
}

// Brings a row of bf16, of which each lane of a warp has some times eight elements, to fp16 with the largest between 2^10
// and 2^11, and returns what it must be multiplied by to be what it was: fp16 has more bits than bf16, and elements that
// it cannot hold are less than 2^-24 of the largest.
template <int kShare>
TS_DEVICE float row_to_halves(u32 (&x)[kShare][4]) {
  u32 largest = 0;  // magnitudes are in the order of their bits
#pragma unroll
  for (int i = 0; i < 4 * kShare; ++i) {
    const u32 magnitudes = x[i / 4][i % 4] & 0x7fff7fffu;
    largest = max(largest, max(magnitudes >> 16, magnitudes & 0xffffu));
  }
  asm volatile("redux.sync.max.u32 %0, %0, 0xffffffff;" : "+r"(largest));
  const u32 up = min(127u + 127u + 10u - (largest >> 7), 253u);  // the exponent of the factor, as floats have it
  const float factor = __uint_as_float(up << 23);
#pragma unroll
  for (int i = 0; i < 4 * kShare; ++i) {
    u32& pair = x[i / 4][i % 4];
    pair = pack<false>(__uint_as_float(pair << 16) * factor, __uint_as_float(pair & 0xffff0000u) * factor);
  }
  return __uint_as_float((254u - up) << 23);
}

// Eight elements of a query, of which every second pair is stored together: the others lie 16 bytes behind.
TS_DEVICE u32 place_in_narrow_order(int chunk) {
  return chunk / 2 * 32 + chunk % 2 * 8;
}
TS_DEVICE void store_in_narrow_order(u32 destination, const u32 (&x)[4]) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(destination), "r"(x[0]), "r"(x[2]) : "memory");
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(destination + 16), "r"(x[1]), "r"(x[3]) : "memory");
}

// Of a transposed matrix: the even columns of two values, and the odd ones.
template <bool kBf16>
TS_DEVICE void widen_columns(u32 elements, u32 (&pairs)[2]) {
  widen<kBf16>(__byte_perm(elements, 0, 0x3120), pairs);
}

}  // namespace ts
