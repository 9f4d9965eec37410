// What attention backward asks of Hopper beside the forward's instructions: products of 64 columns whose B lies with
// those columns contiguous (K for dQ = dS K), copies of statistics, and float32 additions to memory.
#pragma once

#include "../../hopper/wgmma.cuh"

namespace ts {

#define TS_WGMMA_64(ELEMENT)                                                                                       \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"                                                          \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." ELEMENT "." ELEMENT " {" TS_NAMES_4                   \
               "}, %32, %33, p, 1, 1, 0, 1; }"                                                                     \
               : TS_REGS_4                                                                                         \
               : "l"(a), "l"(b), "r"(accumulate))
// d (64 x 64) += A, K-major, times B, N-major; both from shared memory.
template <Element kType>
TS_DEVICE void wgmma_n_major(float (&d)[32], u64 a, u64 b, int accumulate) {
  if constexpr (kType == Element::bf16) {
    TS_WGMMA_64("bf16");
  } else {
    TS_WGMMA_64("f16");
  }
}
#undef TS_WGMMA_64

// Bytes in multiples of 16, from and to addresses that are multiples of 16.
TS_DEVICE void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// 16-byte aligned.
TS_DEVICE void add_to_memory(float* to, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
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
