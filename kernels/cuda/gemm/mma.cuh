// The warp's mma of sm_80 and newer (fp8: sm_89), 16 rows by 8 columns by 32 bytes of k, in the types of the
// configuration. The instruction's name is a string chosen at compile time ("C" operand).
#pragma once

#include "types.cuh"

namespace ts::gemm {

template <int kTypeA, int kTypeB>
struct MmaKind;
#define TS_GEMM_KIND(A, B, TEXT)               \
  template <>                                  \
  struct MmaKind<A, B> {                       \
    static constexpr const char text[] = TEXT; \
  };
TS_GEMM_KIND(TS_GEMM_BF16, TS_GEMM_BF16, "m16n8k16.row.col.f32.bf16.bf16.f32")
TS_GEMM_KIND(TS_GEMM_F16, TS_GEMM_F16, "m16n8k16.row.col.f32.f16.f16.f32")
TS_GEMM_KIND(TS_GEMM_F32, TS_GEMM_F32, "m16n8k8.row.col.f32.tf32.tf32.f32")
TS_GEMM_KIND(TS_GEMM_E4M3, TS_GEMM_E4M3, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
TS_GEMM_KIND(TS_GEMM_E4M3, TS_GEMM_E5M2, "m16n8k32.row.col.f32.e4m3.e5m2.f32")
TS_GEMM_KIND(TS_GEMM_E5M2, TS_GEMM_E4M3, "m16n8k32.row.col.f32.e5m2.e4m3.f32")
TS_GEMM_KIND(TS_GEMM_E5M2, TS_GEMM_E5M2, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
TS_GEMM_KIND(TS_GEMM_S8, TS_GEMM_S8, "m16n8k32.row.col.s32.s8.s8.s32")
#undef TS_GEMM_KIND
using Mma = MmaKind<cfg::kTypeA, kWeights ? cfg::kTypeA : cfg::kTypeB>;

// d += a x b. Of each operand a register holds 4 bytes along k: a0 and a2 row g = lane / 4, a1 and a3 row g + 8, b0 and
// b1 column g; the first of the pairs bytes 4q .. 4q + 3 of k (q = lane % 4), the second the same 16 bytes on. d[0],
// d[1] are row g, columns 2q and 2q + 1; d[2], d[3] row g + 8.
TS_DEVICE void multiply_add(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.%10 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "C"(Mma::text));
}
TS_DEVICE void multiply_add(int (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.%10 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "C"(Mma::text));
}

}  // namespace ts::gemm
