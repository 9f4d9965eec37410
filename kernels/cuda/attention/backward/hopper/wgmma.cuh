// What attention backward asks of Hopper beside the forward's instructions: products of 32 and 64 columns whose B lies
// with those columns contiguous (K for dQ = dS K), others whose A is held in registers, copies of statistics, and float32
// additions to memory.
#pragma once

#include "../../hopper/wgmma.cuh"

namespace ts {

constexpr Element kElement = cfg::kBf16 ? Element::bf16 : Element::f16;

// d (64 x N) += A, K-major, times B, N-major; both from shared memory.
#define TS_WGMMA_N_MAJOR(N, COUNT, ELEMENT, I0, I1, I2)                                                               \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I2                                                                 \
               ", 0;\n"                                                                                               \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ELEMENT "." ELEMENT " {" TS_NAMES_##COUNT "}, %" #I0 \
               ", %" #I1 ", p, 1, 1, 0, 1; }"                                                                         \
               : TS_REGS_##COUNT                                                                                      \
               : "l"(a), "l"(b), "r"(accumulate))
template <Element kType>
TS_DEVICE void wgmma_n_major(float (&d)[16], u64 a, u64 b, int accumulate) {
  if constexpr (kType == Element::bf16) {
    TS_WGMMA_N_MAJOR(32, 2, "bf16", 16, 17, 18);
  } else {
    TS_WGMMA_N_MAJOR(32, 2, "f16", 16, 17, 18);
  }
}
template <Element kType>
TS_DEVICE void wgmma_n_major(float (&d)[32], u64 a, u64 b, int accumulate) {
  if constexpr (kType == Element::bf16) {
    TS_WGMMA_N_MAJOR(64, 4, "bf16", 32, 33, 34);
  } else {
    TS_WGMMA_N_MAJOR(64, 4, "f16", 32, 33, 34);
  }
}
#undef TS_WGMMA_N_MAJOR

// d (64 x 64) += A, in registers, times B, K-major from shared memory.
#define TS_WGMMA_HELD(ELEMENT)                                                                                           \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"                                                                \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." ELEMENT "." ELEMENT " {" TS_NAMES_4 "}, {%32, %33, %34, %35}" \
               ", %36, p, 1, 1, 0; }"                                                                                    \
               : TS_REGS_4                                                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
template <Element kType>
TS_DEVICE void wgmma_held(float (&d)[32], const u32 (&a)[4], u64 b, int accumulate) {
  if constexpr (kType == Element::bf16) {
    TS_WGMMA_HELD("bf16");
  } else {
    TS_WGMMA_HELD("f16");
  }
}
#undef TS_WGMMA_HELD

// 16-byte aligned.
TS_DEVICE void add_to_memory(float* to, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
// Begin to add floats of shared memory to memory, or to store them; bytes and addresses as for bulk_load.
TS_DEVICE void bulk_add(float* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
TS_DEVICE void bulk_store(float* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
// Waits until what the thread has begun has arrived.
TS_DEVICE void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Waits until a counter has a value; what its writers wrote before is seen.
TS_DEVICE void wait_for_value(const unsigned* counter, unsigned value) {
  unsigned seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen != value);
}
TS_DEVICE void count_up(unsigned* counter, unsigned by = 1) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}

// Four matrices of 8 rows of 16 bytes, each transposed: a thread gives what it would hold of the transposed matrix.
TS_DEVICE void store_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

TS_DEVICE float2 load_pair(u32 address) {
  float2 r;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address) : "memory");
  return r;
}

}  // namespace ts
