// The blocks of a cluster that share a tile by k (kClusterK) add their partials: each finishes a share of wgmma's
// columns, and every block writes its partials of that share to the finisher's shared memory. They are added in the
// order of the blocks, so that the result has the same bits every time.
//
// The place for what is received is of its own: nobody waits until another block has finished multiplying. Each block's
// partials of its own share stay at home, because the way between SMs decides: 48x128 by eight blocks took 46 ns a KB.
#pragma once

#include "layout.cuh"

namespace ts::gemm {

TS_DEVICE u32 in_block(u32 address, u32 block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
// Typed as the sums are, like store_sums. The bytes arrive at the barrier, which is in the same block as `to`.
TS_DEVICE void send_sums(u32 to, u32 barrier, const float* s) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3]), "r"(barrier)
      : "memory");
}
TS_DEVICE void send_sums(u32 to, u32 barrier, const int* s) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]), "r"(barrier)
      : "memory");
}
TS_DEVICE void keep_sums(u32 to, const float* s) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3])
               : "memory");
}
TS_DEVICE void keep_sums(u32 to, const int* s) {
  asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3])
               : "memory");
}
// Waits for what other blocks of the cluster have written.
TS_DEVICE void mbarrier_wait_for_cluster(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A warpgroup's partials go to the same warpgroup of every block; the first kOwnSums of each block of
// rows become the whole sums of this block's share. `place` and `barrier` are the warpgroup's, alike in every block.
// Partials lie as [sender][block of rows][sum / 4][thread][4].
TS_DEVICE void exchange_sums(u32 place, u32 barrier, u32 rank, int thread, Sum (&sums)[kRowBlocks][kSums]) {
  constexpr int kRowBytes = 128 * 16, kBlockBytes = kOwnSums / 4 * kRowBytes, kPartBytes = kRowBlocks * kBlockBytes;
  const u32 mine = place + thread * 16;
  if (thread == 0) {
    const int sums_there = imax(0, imin(kOwnSums, kSums - static_cast<int>(rank) * kOwnSums));
    mbarrier_expect(barrier, (cfg::kClusterK - 1) * kRowBlocks * 128 * 4 * sums_there);
  }
  // Each begins with the block behind it, so that not all send to the same one at a time.
#pragma unroll
  for (int turn = 0; turn < 2; ++turn) {
#pragma unroll
    for (int block = 0; block < cfg::kClusterK; ++block) {
      if ((block < static_cast<int>(rank)) != (turn == 1)) continue;
      const u32 there = block_of_part(block, rank);
      const u32 to = in_block(mine + rank * kPartBytes, there), arrives = in_block(barrier, there);
#pragma unroll
      for (int rb = 0; rb < kRowBlocks; ++rb) {
#pragma unroll
        for (int i = 0; i < kOwnSums; i += 4) {
          if (block * kOwnSums + i >= kSums) continue;
          const Sum* const from = &sums[rb][block * kOwnSums + i];
          const u32 at = rb * kBlockBytes + i / 4 * kRowBytes;
          if (static_cast<int>(rank) == block)
            keep_sums(mine + rank * kPartBytes + at, from);
          else
            send_sums(to + at, arrives, from);
        }
      }
    }
  }
  mbarrier_wait_for_cluster(barrier, 0);
#pragma unroll
  for (int rb = 0; rb < kRowBlocks; ++rb) {
#pragma unroll
    for (int i = 0; i < kOwnSums; i += 4) {
#pragma unroll
      for (int part = 0; part < cfg::kClusterK; ++part) {
        u32 loaded[4];
        load_shared(loaded, mine + part * kPartBytes + rb * kBlockBytes + i / 4 * kRowBytes);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[rb][i + e] = (part == 0 ? Sum{0} : sums[rb][i + e]) + sum_of_bits(loaded[e]);
      }
    }
  }
}

}  // namespace ts::gemm
