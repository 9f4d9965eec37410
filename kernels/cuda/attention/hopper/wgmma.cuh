// wgmma with float32 accumulators, m64nNk16 of 16-bit elements and m64nNk32 of e4m3, for every
// N that is a multiple of 16: `ss` takes A from shared memory and a K-major B (queries times keys), or with kNMajor an
// N-major one, which e4m3 has not; `rs` takes A from registers and B N-major (probabilities times values), or K-major
// without kNMajor and in e4m3. One specialisation per N, because the number of accumulator registers is part of the instruction's text.
//
// Accumulator layout (thread t of 128, warp w = t / 32, g = t % 32 / 4, q = t % 4): d[4j], d[4j+1] are row 16w+g,
// columns 8j+2q, 8j+2q+1; d[4j+2], d[4j+3] the same columns of row 16w+g+8. A thread owns two rows; a row lives in four
// lanes.
#pragma once

#include "ptx.cuh"

namespace ts {

// Shared-memory matrix descriptors, 128-byte swizzle. The high word says: 1024 bytes from one group of eight rows to
// the next, swizzle 1.
constexpr u64 kDescriptorHigh = 0x4000004000000000ull;
// K-major operand: rows of 128 bytes.
TS_DEVICE u64 descriptor_k_major(u32 address) {
  return kDescriptorHigh | ((address & 0x3ffff) >> 4);
}
// N-major operand: `leading_bytes` from one group of 64 columns to the next.
TS_DEVICE u64 descriptor_n_major(u32 address, u32 leading_bytes) {
  return kDescriptorHigh | (static_cast<u64>(leading_bytes >> 4) << 16) | ((address & 0x3ffff) >> 4);
}

TS_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
TS_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
TS_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// An empty statement that reads and writes registers. Before a wgmma and after its wait it keeps the compiler from
// moving ordinary accesses of an accumulator in between, which would make ptxas serialise the wgmma (C7511, C7515).
template <int N>
TS_DEVICE void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N>
TS_DEVICE void pin(u32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

enum class Element { bf16, f16, e4m3 };

template <int N, Element kType>
struct Wgmma;

#define TS_F8(i)                                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define TS_NAMES_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TS_NAMES_2 TS_NAMES_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TS_NAMES_3 TS_NAMES_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TS_NAMES_4 TS_NAMES_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TS_NAMES_5 TS_NAMES_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TS_NAMES_6 TS_NAMES_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TS_NAMES_7 TS_NAMES_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TS_NAMES_8 TS_NAMES_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define TS_NAMES_9 TS_NAMES_8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define TS_NAMES_10 TS_NAMES_9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define TS_NAMES_11 TS_NAMES_10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define TS_NAMES_12 TS_NAMES_11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define TS_NAMES_13 TS_NAMES_12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define TS_NAMES_14 TS_NAMES_13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define TS_NAMES_15 TS_NAMES_14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define TS_NAMES_16 TS_NAMES_15 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define TS_REGS_1 TS_F8(0)
#define TS_REGS_2 TS_REGS_1, TS_F8(8)
#define TS_REGS_3 TS_REGS_2, TS_F8(16)
#define TS_REGS_4 TS_REGS_3, TS_F8(24)
#define TS_REGS_5 TS_REGS_4, TS_F8(32)
#define TS_REGS_6 TS_REGS_5, TS_F8(40)
#define TS_REGS_7 TS_REGS_6, TS_F8(48)
#define TS_REGS_8 TS_REGS_7, TS_F8(56)
#define TS_REGS_9 TS_REGS_8, TS_F8(64)
#define TS_REGS_10 TS_REGS_9, TS_F8(72)
#define TS_REGS_11 TS_REGS_10, TS_F8(80)
#define TS_REGS_12 TS_REGS_11, TS_F8(88)
#define TS_REGS_13 TS_REGS_12, TS_F8(96)
#define TS_REGS_14 TS_REGS_13, TS_F8(104)
#define TS_REGS_15 TS_REGS_14, TS_F8(112)
#define TS_REGS_16 TS_REGS_15, TS_F8(120)

// `I0`..`I6` are the numbers of the operands after the accumulators.
#define TS_WGMMA(N, COUNT, ELEMENT, SHAPE, SS, RS, I0, I1, I2, I3, I4, I5, I6)                               \
  template <>                                                                                            \
  struct Wgmma<N, Element::ELEMENT> {                                                                    \
    template <bool kNMajor = false>                                                                      \
    static TS_DEVICE void ss(float (&d)[N / 2], u64 a, u64 b, int accumulate) {                          \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I2                                                \
                   ", 0;\n"                                                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #N SHAPE "." #ELEMENT "." #ELEMENT                \
                   " {" TS_NAMES_##COUNT "}, %" #I0 ", %" #I1 ", p, " SS "; }"                           \
                   : TS_REGS_##COUNT                                                                     \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kNMajor ? 1 : 0));                             \
    }                                                                                                    \
    template <bool kNMajor = true>                                                                       \
    static TS_DEVICE void rs(float (&d)[N / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int accumulate) { \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I5                                                \
                   ", 0;\n"                                                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #N SHAPE "." #ELEMENT "." #ELEMENT                \
                   " {" TS_NAMES_##COUNT "}, {%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", p, " RS \
                   "; }"                                                                                 \
                   : TS_REGS_##COUNT                                                                     \
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(accumulate),                        \
                     "n"(kNMajor ? 1 : 0));                                                              \
    }                                                                                                    \
  };
#define TS_WGMMA_TYPES(N, COUNT, I0, I1, I2, I3, I4, I5, I6)                                           \
  TS_WGMMA(N, COUNT, bf16, "k16.f32", "1, 1, 0, %" #I3, "1, 1, %" #I6, I0, I1, I2, I3, I4, I5, I6)       \
  TS_WGMMA(N, COUNT, f16, "k16.f32", "1, 1, 0, %" #I3, "1, 1, %" #I6, I0, I1, I2, I3, I4, I5, I6)        \
  TS_WGMMA(N, COUNT, e4m3, "k32.f32", "1, 1", "1, 1", I0, I1, I2, I3, I4, I5, I6)
TS_WGMMA_TYPES(16, 1, 8, 9, 10, 11, 12, 13, 14)
TS_WGMMA_TYPES(32, 2, 16, 17, 18, 19, 20, 21, 22)
TS_WGMMA_TYPES(48, 3, 24, 25, 26, 27, 28, 29, 30)
TS_WGMMA_TYPES(64, 4, 32, 33, 34, 35, 36, 37, 38)
TS_WGMMA_TYPES(80, 5, 40, 41, 42, 43, 44, 45, 46)
TS_WGMMA_TYPES(96, 6, 48, 49, 50, 51, 52, 53, 54)
TS_WGMMA_TYPES(112, 7, 56, 57, 58, 59, 60, 61, 62)
TS_WGMMA_TYPES(128, 8, 64, 65, 66, 67, 68, 69, 70)
TS_WGMMA_TYPES(144, 9, 72, 73, 74, 75, 76, 77, 78)
TS_WGMMA_TYPES(160, 10, 80, 81, 82, 83, 84, 85, 86)
TS_WGMMA_TYPES(176, 11, 88, 89, 90, 91, 92, 93, 94)
TS_WGMMA_TYPES(192, 12, 96, 97, 98, 99, 100, 101, 102)
TS_WGMMA_TYPES(208, 13, 104, 105, 106, 107, 108, 109, 110)
TS_WGMMA_TYPES(224, 14, 112, 113, 114, 115, 116, 117, 118)
TS_WGMMA_TYPES(240, 15, 120, 121, 122, 123, 124, 125, 126)
TS_WGMMA_TYPES(256, 16, 128, 129, 130, 131, 132, 133, 134)
#undef TS_WGMMA_TYPES
#undef TS_WGMMA

}  // namespace ts
