// Freestanding basics shared by the CUDA templates: integer types, the element type, special functions, quad reductions.
#pragma once

#include "abi.h"

#define TS_DEVICE __device__ __forceinline__

namespace ts {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }
TS_DEVICE int imin(int a, int b) { return a < b ? a : b; }
TS_DEVICE int imax(int a, int b) { return a > b ? a : b; }

TS_DEVICE u32 smem_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

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

// tanh from exp2 and a reciprocal. tanh.approx.f32 errs by 2^-11, which a soft cap of 30 turns into 1.5% of a probability; this errs by
// about 1e-7. Large |x| saturates to +-1 through exp2's 0 and infinity.
TS_DEVICE float tanh_exact(float x) { return 1.0f - 2.0f * rcp_approx(exp2_approx(x * (2.0f * kLog2e)) + 1.0f); }

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

// Reductions over the four lanes that share an accumulator row.
TS_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
TS_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Word j of lane q becomes word q of lane j, within every four lanes: afterwards a lane holds 16 contiguous bytes of an accumulator row
// instead of four pieces of 4 bytes.
TS_DEVICE void quad_transpose(u32 (&w)[4]) {
  const u32 lane = threadIdx.x & 3;
  const bool odd = lane & 1;
  const bool upper = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const u32 received = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
    w[i] = odd ? received : w[i];
    w[i + 1] = odd ? w[i + 1] : received;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 received = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + 2], 2);
    w[i] = upper ? received : w[i];
    w[i + 2] = upper ? w[i + 2] : received;
  }
}

TS_DEVICE void store_16_bytes(void* p, const u32 (&w)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

// What a row's softmax leaves: the factor its output is multiplied by, and its lse.
struct RowResult {
  float scale;
  float lse;
};

// `peak` is the row maximum in units of log2 (-infinity when the row saw nothing), `sum` the sum of exp2(s - peak) over the row. A sink is
// one more logit of the sum.
template <bool kSink>
TS_DEVICE RowResult finish_row(float peak, float sum, float sink) {
  float scale = 1.0f;
  if constexpr (kSink) {
    const float sink2 = __fmul_rn(sink, kLog2e);
    const float top = fmaxf(peak, sink2);
    if (top > -kInfinity) {
      scale = exp2_approx(peak - top);
      sum = fmaf(sum, scale, exp2_approx(sink2 - top));
      peak = top;
    }
  }
  const bool empty = !(sum > 0.0f) && sum == sum;  // a NaN sum is no empty row
  RowResult r;
  r.scale = empty ? 0.0f : scale / sum;
  r.lse = empty ? -kInfinity : (peak + log2f(sum)) * kLn2;
  return r;
}

}  // namespace ts
