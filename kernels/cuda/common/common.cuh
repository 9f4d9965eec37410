// Freestanding basics shared by the CUDA templates: integer types, the element type, special functions, quad
// reductions.
#pragma once

#include "../attention/abi.h"

#define TS_DEVICE __device__ __forceinline__

namespace ts {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);

__host__ __device__ constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
__host__ __device__ constexpr int round_up(int a, int b) {
  return ceil_div(a, b) * b;
}
TS_DEVICE int imin(int a, int b) {
  return a < b ? a : b;
}
TS_DEVICE int imax(int a, int b) {
  return a > b ? a : b;
}

// The upper half of the product.
TS_DEVICE u32 multiply_high(u32 a, u32 b) {
  return __umulhi(a, b);
}
// A product that is not fused with an addition.
TS_DEVICE float rounded_product(float a, float b) {
  return __fmul_rn(a, b);
}

TS_DEVICE u32 smem_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

TS_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TS_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TS_DEVICE float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A minimum that keeps a NaN.
TS_DEVICE float min_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// A maximum that keeps a NaN.
TS_DEVICE float max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// Two floats to one packed pair of elements; `low` is the one at the lower address.
template <bool kBf16>
TS_DEVICE u32 pack(float low, float high) {
  u32 r;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  }
  return r;
}

// Four floats to e4m3, `a` at the lowest address; what is too large becomes 448.
TS_DEVICE u32 pack_e4m3(float a, float b, float c, float d) {
  u32 r;
  asm("{ .reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high}; }"
      : "=r"(r)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
}

// Reductions over the four lanes that share an accumulator row.
TS_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
TS_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Two neighbouring 8-column tiles of an accumulator row, packed: each lane of four holds 4 bytes of either.
// Afterwards even lanes hold 8 contiguous bytes of the first tile and odd lanes of the second, so that a store of the
// four lanes is one whole 32-byte sector.
TS_DEVICE void pair_exchange(u32& first, u32& second) {
  const bool odd = threadIdx.x & 1;
  const u32 received = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
  first = odd ? received : first;
  second = odd ? second : received;
}

TS_DEVICE void store_8_bytes(void* p, u32 low, u32 high) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(p), "r"(low), "r"(high) : "memory");
}

// Stores one of a thread's two rows (`r`), `o` times `scale`, up to `columns`. `out` is the row's first element in
// memory; null leaves it alone. A scale of zero marks a row that saw nothing: it is zero whatever its values were,
// though 0 * NaN is not.
template <bool kBf16, int N>
TS_DEVICE void store_row(char* out, const float (&o)[N], int r, float scale, int columns) {
  static_assert(N % 8 == 0, "whole pairs of 8-column tiles");
  const int lane = threadIdx.x & 3;
  const int column = 8 * (lane & 1) + 4 * (lane >> 1);  // the lane's place after the exchange, in a pair of tiles
  const bool empty = scale == 0.0f;
#pragma unroll
  for (int i = 0; i < N; i += 8) {
    u32 first = pack<kBf16>(o[i + 2 * r] * scale, o[i + 2 * r + 1] * scale);
    u32 second = pack<kBf16>(o[i + 2 * r + 4] * scale, o[i + 2 * r + 5] * scale);
    pair_exchange(first, second);
    if (empty) first = second = 0;
    if (out != nullptr && (2 * i + 16 <= columns || 2 * i + column < columns))
      store_8_bytes(out + 4 * i + 2 * column, first, second);
  }
}

// The same by single elements: for rows with no alignment and for columns of any number.
template <bool kBf16, int N>
TS_DEVICE void store_row_by_elements(char* out, const float (&o)[N], int r, float scale, int columns) {
  if (out == nullptr) return;
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const int column = 2 * i + 2 * (threadIdx.x & 3);
    const u32 pair = scale == 0.0f ? 0 : pack<kBf16>(o[i + 2 * r] * scale, o[i + 2 * r + 1] * scale);
    unsigned short* const to = reinterpret_cast<unsigned short*>(out) + column;
    if (column < columns) to[0] = static_cast<unsigned short>(pair);
    if (column + 1 < columns) to[1] = static_cast<unsigned short>(pair >> 16);
  }
}

}  // namespace ts
