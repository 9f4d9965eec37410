// The mma of sm_80, and the copies that feed it: m16n8k16 of 16-bit elements, m16n8k8 of tf32.
#pragma once

#include "copy.cuh"

namespace ts {

// d[0..3] += a (16x16, of tf32 16x8) * b (16x8, of tf32 8x8).
template <bool kBf16 = cfg::kBf16>
TS_DEVICE void mma(float* d, const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (cfg::kFp32) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// What an operand is to the mma: 16-bit elements as they are; of a float32 what tf32 holds of it, and with kTf32x3 the
// rest. The rest of a rounded number has at most one bit more than tf32 holds; the mma leaves that bit out.
template <int N>
struct Operand {
  u32 head[N];
  u32 rest[cfg::kTf32x3 ? N : 1];

  TS_DEVICE void split() {
    if constexpr (cfg::kFp32) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float whole = __uint_as_float(head[i]);
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(head[i]) : "f"(whole));
        if constexpr (cfg::kTf32x3) rest[i] = __float_as_uint(whole - __uint_as_float(head[i]));
      }
    }
  }
};

// d += a * b, b being registers kFirst and kFirst + 1 of an operand. The small products go first.
template <int kFirst, int N>
TS_DEVICE void multiply_add(float* d, const Operand<4>& a, const Operand<N>& b) {
  if constexpr (cfg::kTf32x3) {
    mma(d, a.rest, b.head[kFirst], b.head[kFirst + 1]);
    mma(d, a.head, b.rest[kFirst], b.rest[kFirst + 1]);
  }
  mma(d, a.head, b.head[kFirst], b.head[kFirst + 1]);
}

}  // namespace ts
