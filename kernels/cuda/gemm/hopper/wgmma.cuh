// wgmma of the GEMM templates: both operands from shared memory, every element type, K-major or
// (16-bit types) MN-major. A step is 32 bytes of k whatever the type.
//
// The instruction's types and its trailing immediates are strings chosen at compile time ("C" operands), so one
// specialisation per number of accumulators is enough.
#pragma once

#include "../../attention/hopper/wgmma.cuh"
#include "../types.cuh"

namespace ts::gemm {

// Operand whose rows of 32, 64 or 128 bytes are swizzled by as many: eight rows follow eight. What says so is 3, 2 or 1.
// N-major: `leading_bytes` from one column of a row's bytes to the next.
template <int kRowBytes>
TS_DEVICE u64 descriptor_of_rows(u32 address, u32 leading_bytes = 0) {
  static_assert(kRowBytes == 32 || kRowBytes == 64 || kRowBytes == 128);
  constexpr u64 kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return kSwizzle << 62 | static_cast<u64>(8 * kRowBytes >> 4) << 32 | static_cast<u64>(leading_bytes >> 4) << 16 |
         ((address & 0x3ffff) >> 4);
}

template <int kTypeA, int kTypeB>
struct ProductKind;
#define TS_GEMM_KIND(A, B, TEXT)               \
  template <>                                  \
  struct ProductKind<A, B> {                   \
    static constexpr const char text[] = TEXT; \
  };
TS_GEMM_KIND(TS_GEMM_BF16, TS_GEMM_BF16, "k16.f32.bf16.bf16")
TS_GEMM_KIND(TS_GEMM_F16, TS_GEMM_F16, "k16.f32.f16.f16")
TS_GEMM_KIND(TS_GEMM_F32, TS_GEMM_F32, "k8.f32.tf32.tf32")
TS_GEMM_KIND(TS_GEMM_E4M3, TS_GEMM_E4M3, "k32.f32.e4m3.e4m3")
TS_GEMM_KIND(TS_GEMM_E4M3, TS_GEMM_E5M2, "k32.f32.e4m3.e5m2")
TS_GEMM_KIND(TS_GEMM_E5M2, TS_GEMM_E4M3, "k32.f32.e5m2.e4m3")
TS_GEMM_KIND(TS_GEMM_E5M2, TS_GEMM_E5M2, "k32.f32.e5m2.e5m2")
TS_GEMM_KIND(TS_GEMM_S8, TS_GEMM_S8, "k32.s32.s8.s8")
#undef TS_GEMM_KIND

// Signs of the operands and, for 16-bit types, whether each is MN-major.
template <bool kInteger, bool kSixteen, bool kMnMajorA, bool kMnMajorB>
struct ProductTail {
  static constexpr const char text[] = ", 1, 1";
};
template <>
struct ProductTail<true, false, false, false> {
  static constexpr const char text[] = "";
};
template <>
struct ProductTail<false, true, false, false> {
  static constexpr const char text[] = ", 1, 1, 0, 0";
};
template <>
struct ProductTail<false, true, true, false> {
  static constexpr const char text[] = ", 1, 1, 1, 0";
};
template <>
struct ProductTail<false, true, false, true> {
  static constexpr const char text[] = ", 1, 1, 0, 1";
};
template <>
struct ProductTail<false, true, true, true> {
  static constexpr const char text[] = ", 1, 1, 1, 1";
};

// Transposed, b is the first operand. Weights are multiplied as what a is.
template <bool kSwapped, int kTypeA, int kTypeB>
struct OrderedKind : ProductKind<kTypeA, kTypeB> {};
template <int kTypeA, int kTypeB>
struct OrderedKind<true, kTypeA, kTypeB> : ProductKind<kTypeB, kTypeA> {};
using Kind = OrderedKind<cfg::kTransposed, cfg::kTypeA, kWeights ? cfg::kTypeA : cfg::kTypeB>;
constexpr bool kSixteenBits = bytes_of(cfg::kTypeA) == 2;
constexpr bool kAcrossKA = kSixteenBits && !cfg::kRowMajorA, kAcrossKB = kSixteenBits && cfg::kRowMajorB;
using Tail = ProductTail<cfg::kTypeA == TS_GEMM_S8, kSixteenBits, cfg::kTransposed ? kAcrossKB : kAcrossKA,
                         cfg::kTransposed ? kAcrossKA : kAcrossKB>;

// multiply(d, a, b, accumulate): d (+)= a x b, of 64 rows and N columns.
template <int N>
struct Product;

#define TS_GEMM_R8(C, i) \
  C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]), C(d[i + 7])
#define TS_GEMM_REGS_1(C) TS_GEMM_R8(C, 0)
#define TS_GEMM_REGS_2(C) TS_GEMM_REGS_1(C), TS_GEMM_R8(C, 8)
#define TS_GEMM_REGS_3(C) TS_GEMM_REGS_2(C), TS_GEMM_R8(C, 16)
#define TS_GEMM_REGS_4(C) TS_GEMM_REGS_3(C), TS_GEMM_R8(C, 24)
#define TS_GEMM_REGS_5(C) TS_GEMM_REGS_4(C), TS_GEMM_R8(C, 32)
#define TS_GEMM_REGS_6(C) TS_GEMM_REGS_5(C), TS_GEMM_R8(C, 40)
#define TS_GEMM_REGS_7(C) TS_GEMM_REGS_6(C), TS_GEMM_R8(C, 48)
#define TS_GEMM_REGS_8(C) TS_GEMM_REGS_7(C), TS_GEMM_R8(C, 56)
#define TS_GEMM_REGS_9(C) TS_GEMM_REGS_8(C), TS_GEMM_R8(C, 64)
#define TS_GEMM_REGS_10(C) TS_GEMM_REGS_9(C), TS_GEMM_R8(C, 72)
#define TS_GEMM_REGS_11(C) TS_GEMM_REGS_10(C), TS_GEMM_R8(C, 80)
#define TS_GEMM_REGS_12(C) TS_GEMM_REGS_11(C), TS_GEMM_R8(C, 88)
#define TS_GEMM_REGS_13(C) TS_GEMM_REGS_12(C), TS_GEMM_R8(C, 96)
#define TS_GEMM_REGS_14(C) TS_GEMM_REGS_13(C), TS_GEMM_R8(C, 104)
#define TS_GEMM_REGS_15(C) TS_GEMM_REGS_14(C), TS_GEMM_R8(C, 112)
#define TS_GEMM_REGS_16(C) TS_GEMM_REGS_15(C), TS_GEMM_R8(C, 120)
// An H is half of the eight sums more: wgmma's columns come in eights.
#define TS_GEMM_R4(C, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3])
#define TS_GEMM_REGS_H(C) TS_GEMM_R4(C, 0)
#define TS_GEMM_REGS_1H(C) TS_GEMM_REGS_1(C), TS_GEMM_R4(C, 8)
#define TS_NAMES_H "%0, %1, %2, %3"
#define TS_NAMES_1H TS_NAMES_1 ", %8, %9, %10, %11"
#define TS_GEMM_REGS_5H(C) TS_GEMM_REGS_5(C), TS_GEMM_R4(C, 40)
#define TS_GEMM_REGS_6H(C) TS_GEMM_REGS_6(C), TS_GEMM_R4(C, 48)
#define TS_GEMM_REGS_7H(C) TS_GEMM_REGS_7(C), TS_GEMM_R4(C, 56)
#define TS_GEMM_REGS_8H(C) TS_GEMM_REGS_8(C), TS_GEMM_R4(C, 64)
#define TS_GEMM_REGS_9H(C) TS_GEMM_REGS_9(C), TS_GEMM_R4(C, 72)
#define TS_GEMM_REGS_10H(C) TS_GEMM_REGS_10(C), TS_GEMM_R4(C, 80)
#define TS_GEMM_REGS_11H(C) TS_GEMM_REGS_11(C), TS_GEMM_R4(C, 88)
#define TS_GEMM_REGS_12H(C) TS_GEMM_REGS_12(C), TS_GEMM_R4(C, 96)
#define TS_GEMM_REGS_13H(C) TS_GEMM_REGS_13(C), TS_GEMM_R4(C, 104)
#define TS_GEMM_REGS_14H(C) TS_GEMM_REGS_14(C), TS_GEMM_R4(C, 112)
#define TS_GEMM_REGS_15H(C) TS_GEMM_REGS_15(C), TS_GEMM_R4(C, 120)
#define TS_NAMES_5H TS_NAMES_5 ", %40, %41, %42, %43"
#define TS_NAMES_6H TS_NAMES_6 ", %48, %49, %50, %51"
#define TS_NAMES_7H TS_NAMES_7 ", %56, %57, %58, %59"
#define TS_NAMES_8H TS_NAMES_8 ", %64, %65, %66, %67"
#define TS_NAMES_9H TS_NAMES_9 ", %72, %73, %74, %75"
#define TS_NAMES_10H TS_NAMES_10 ", %80, %81, %82, %83"
#define TS_NAMES_11H TS_NAMES_11 ", %88, %89, %90, %91"
#define TS_NAMES_12H TS_NAMES_12 ", %96, %97, %98, %99"
#define TS_NAMES_13H TS_NAMES_13 ", %104, %105, %106, %107"
#define TS_NAMES_14H TS_NAMES_14 ", %112, %113, %114, %115"
#define TS_NAMES_15H TS_NAMES_15 ", %120, %121, %122, %123"
#define TS_GEMM_FLOATS(x) "+f"(x)
#define TS_GEMM_INTS(x) "+r"(x)

// `I0`..`I4` are the numbers of the operands after the accumulators.
#define TS_GEMM_MULTIPLY(TYPE, CONSTRAINT, N, COUNT, I0, I1, I2, I3, I4)                                              \
  static TS_DEVICE void multiply(TYPE(&d)[N / 2], u64 a, u64 b, int accumulate) {                                     \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I2                                                               \
                 ", 0;\n"                                                                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #N "%" #I3 " {" TS_NAMES_##COUNT "}, %" #I0 ", %" #I1 ", p%" #I4 \
                                                                                      "; }"                           \
                 : TS_GEMM_REGS_##COUNT(CONSTRAINT)                                                                   \
                 : "l"(a), "l"(b), "r"(accumulate), "C"(Kind::text), "C"(Tail::text));                                \
  }
#define TS_GEMM_PRODUCT(N, COUNT, I0, I1, I2, I3, I4)                     \
  template <>                                                             \
  struct Product<N> {                                                     \
    TS_GEMM_MULTIPLY(float, TS_GEMM_FLOATS, N, COUNT, I0, I1, I2, I3, I4) \
    TS_GEMM_MULTIPLY(int, TS_GEMM_INTS, N, COUNT, I0, I1, I2, I3, I4)     \
  };
TS_GEMM_PRODUCT(8, H, 4, 5, 6, 7, 8)
TS_GEMM_PRODUCT(16, 1, 8, 9, 10, 11, 12)
TS_GEMM_PRODUCT(24, 1H, 12, 13, 14, 15, 16)
TS_GEMM_PRODUCT(32, 2, 16, 17, 18, 19, 20)
TS_GEMM_PRODUCT(48, 3, 24, 25, 26, 27, 28)
TS_GEMM_PRODUCT(64, 4, 32, 33, 34, 35, 36)
TS_GEMM_PRODUCT(80, 5, 40, 41, 42, 43, 44)
TS_GEMM_PRODUCT(88, 5H, 44, 45, 46, 47, 48)
TS_GEMM_PRODUCT(96, 6, 48, 49, 50, 51, 52)
TS_GEMM_PRODUCT(104, 6H, 52, 53, 54, 55, 56)
TS_GEMM_PRODUCT(112, 7, 56, 57, 58, 59, 60)
TS_GEMM_PRODUCT(120, 7H, 60, 61, 62, 63, 64)
TS_GEMM_PRODUCT(128, 8, 64, 65, 66, 67, 68)
TS_GEMM_PRODUCT(136, 8H, 68, 69, 70, 71, 72)
TS_GEMM_PRODUCT(144, 9, 72, 73, 74, 75, 76)
TS_GEMM_PRODUCT(152, 9H, 76, 77, 78, 79, 80)
TS_GEMM_PRODUCT(160, 10, 80, 81, 82, 83, 84)
TS_GEMM_PRODUCT(168, 10H, 84, 85, 86, 87, 88)
TS_GEMM_PRODUCT(176, 11, 88, 89, 90, 91, 92)
TS_GEMM_PRODUCT(184, 11H, 92, 93, 94, 95, 96)
TS_GEMM_PRODUCT(192, 12, 96, 97, 98, 99, 100)
TS_GEMM_PRODUCT(200, 12H, 100, 101, 102, 103, 104)
TS_GEMM_PRODUCT(208, 13, 104, 105, 106, 107, 108)
TS_GEMM_PRODUCT(216, 13H, 108, 109, 110, 111, 112)
TS_GEMM_PRODUCT(224, 14, 112, 113, 114, 115, 116)
TS_GEMM_PRODUCT(232, 14H, 116, 117, 118, 119, 120)
TS_GEMM_PRODUCT(240, 15, 120, 121, 122, 123, 124)
TS_GEMM_PRODUCT(248, 15H, 124, 125, 126, 127, 128)
TS_GEMM_PRODUCT(256, 16, 128, 129, 130, 131, 132)
#undef TS_GEMM_PRODUCT
#undef TS_GEMM_MULTIPLY

// The same of a 16-bit a in registers: multiply(d, a, b, accumulate), a's in the order of mma.cuh.
template <int N>
struct RegisterProduct;
#define TS_GEMM_PRODUCT(N, COUNT, I0, I1, I2, I3, I4, I5, I6)                                                         \
  template <>                                                                                                         \
  struct RegisterProduct<N> {                                                                                         \
    static TS_DEVICE void multiply(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {                     \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I5                                                             \
                   ", 0;\n"                                                                                           \
                   "wgmma.mma_async.sync.aligned.m64n" #N "%" #I6 " {" TS_NAMES_##COUNT "}, {%" #I0 ", %" #I1 ", %" #I2 \
                                                                                        ", %" #I3 "}, %" #I4           \
                                                                                        ", p, 1, 1, 0; }"              \
                   : TS_GEMM_REGS_##COUNT(TS_GEMM_FLOATS)                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "C"(Kind::text));           \
    }                                                                                                                 \
  };
TS_GEMM_PRODUCT(16, 1, 8, 9, 10, 11, 12, 13, 14)
TS_GEMM_PRODUCT(32, 2, 16, 17, 18, 19, 20, 21, 22)
TS_GEMM_PRODUCT(64, 4, 32, 33, 34, 35, 36, 37, 38)
TS_GEMM_PRODUCT(128, 8, 64, 65, 66, 67, 68, 69, 70)
TS_GEMM_PRODUCT(192, 12, 96, 97, 98, 99, 100, 101, 102)
TS_GEMM_PRODUCT(256, 16, 128, 129, 130, 131, 132, 133, 134)
#undef TS_GEMM_PRODUCT

template <int N>
TS_DEVICE void pin_sums(float (&d)[N]) {
  pin(d);
}
template <int N>
TS_DEVICE void pin_sums(int (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

}  // namespace ts::gemm
