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

// Two numbers of fp16 as the operands' type.
TS_DEVICE u32 operand_of_halves(u32 halves) {
  if constexpr (!cfg::kBf16) return halves;
  float low, high;
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
      : "=f"(low), "=f"(high)
      : "r"(halves));
  return pack<true>(low, high);
}

// Four narrow elements as two pairs of the operands' type, without rounding.
TS_DEVICE void widen(u32 elements, u32 (&pairs)[2]) {
  if constexpr (cfg::kCacheFp8) {
    asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.rn.f16x2.e4m3x2 %0, a;\ncvt.rn.f16x2.e4m3x2 %1, b;\n}"
        : "=r"(pairs[0]), "=r"(pairs[1])
        : "r"(elements));
    pairs[0] = operand_of_halves(pairs[0]);
    pairs[1] = operand_of_halves(pairs[1]);
  } else {
    // Below the bits of 2^10 in fp16, or of 2^23 in fp32, stands an integer of 0 to 255: the number less the smallest.
    const u32 shifted = elements ^ 0x80808080u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (cfg::kBf16) {
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

// Eight elements of a query, of which every second pair is stored together: the others lie 16 bytes behind.
TS_DEVICE void store_in_narrow_order(u32 destination, const void* source, bool valid) {
  u32 x[4] = {};
  if (valid)
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(source)
                 : "memory");
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(destination), "r"(x[0]), "r"(x[2]) : "memory");
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(destination + 16), "r"(x[1]), "r"(x[3]) : "memory");
}

// Of a transposed matrix: the even columns of two values, and the odd ones.
TS_DEVICE void widen_columns(u32 elements, u32 (&pairs)[2]) {
  widen(__byte_perm(elements, 0, 0x3120), pairs);
}

}  // namespace ts
