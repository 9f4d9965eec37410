// A consumer warpgroup's way to d: slabs of 64 rows in shared memory, which the copy engine stores.
#pragma once

#include "layout.cuh"

// Where a slab goes may be said by the file that includes this one.
#ifndef TS_RESULT
#define TS_RESULT Rows
#endif

namespace ts::gemm {

struct Rows {
  // Starts the copy of a box of a slab to d, at a row and a column of a x b.
  static TS_DEVICE void store(const TsCudaGemmMaps& maps, const TsCudaGemmArgs&, const Tile&, u32 box, int row,
                              int column, int batch) {
    store_box(&maps.d, box, column, row, batch);
  }
};

struct Slabs {
  const Shared& shared;
  const TsCudaGemmMaps& maps;
  const TsCudaGemmArgs& args;
  int warpgroup;
  u32 rank;
  u32 slab_count = 0;  // given to the copy engine

  TS_DEVICE int thread() const { return threadIdx.x % 128; }
  TS_DEVICE int barrier() const { return 1 + warpgroup; }
  static TS_DEVICE i64 batch_of(const Tile& t) { return cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch; }

  u32 held[2] = {};  // kSlabsInRing: the stages that this warpgroup keeps, alike in a tile of one step
  bool holds = false;

  TS_DEVICE u32 next_slab() {
    const u32 buffer = slab_count++ & 1;
    if constexpr (!kSlabsInRing) return shared.slab(warpgroup, buffer);
    if constexpr (kHeldStages == 1) return shared.own(held[0], warpgroup) + buffer * round_up(kSlabBytes, 1024);
    if (held[0] == held[1]) {
      if (thread() == 0) store_wait_read<0>();
      named_barrier_sync(barrier(), 128);
    }
    return shared.own(buffer == 0 ? held[0] : held[1], warpgroup);
  }

  // Puts a slab into shared memory, swizzled as the copy engine expects, and starts the copies of `boxes` boxes of it to
  // d at a row and a column of a x b.
  TS_DEVICE void store_as_tma_box(const Tile& t, int row, int column, const float (&v)[kSlabColumns / 2],
                                  int boxes = 1) {
    const u32 slab = next_slab();
    if constexpr (kBytesD == 2 && !kGated) {
      write_slab_matrices(slab, v);
    } else {
      write_slab(slab, v);
    }
    send_slab(t, slab, row, column, boxes);
  }
  // The thread that starts copies sees to it that the buffer of the next slab is free before the others pass the
  // barrier.
  TS_DEVICE void send_slab(const Tile& t, u32 slab, int row, int column, int boxes) const {
    fence_proxy_async();
    if (thread() == 0) store_wait_read<0>();
    named_barrier_sync(barrier(), 128);
    if (thread() == 0) {
#pragma unroll
      for (int box = 0; box < boxes; ++box) {
        TS_RESULT::store(maps, args, t, slab + box * kBoxRows * kSlabRowBytes, row + box * kBoxRows,
                         kGated ? column / 2 : column, static_cast<int>(batch_of(t)));
      }
      store_commit();
    }
  }

  // 16-bit elements: four matrices of 8 x 8 at a time, the two row halves of two neighbouring 8-column tiles.
  TS_DEVICE void write_slab_matrices(u32 slab, const float (&v)[kSlabColumns / 2]) const {
    const int row = thread() / 32 * 16 + thread() % 16;
    const u32 line = slab + row * kSlabRowBytes;
    const u32 chunk = (swizzle<kSlabRowBytes>(row) ^ (thread() >> 4 & 1)) << 4;
#pragma unroll
    for (int j = 0; j < kSlabColumns / 8; j += 2) {
      const float* const x = v + 4 * j;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(line + (chunk ^ (j << 4))),
                   "r"(pack_pair<cfg::kTypeD>(x[0], x[1]).words[0]), "r"(pack_pair<cfg::kTypeD>(x[2], x[3]).words[0]),
                   "r"(pack_pair<cfg::kTypeD>(x[4], x[5]).words[0]), "r"(pack_pair<cfg::kTypeD>(x[6], x[7]).words[0])
                   : "memory");
    }
  }

  // Any element: pair by pair; a gate's results one by one.
  TS_DEVICE void write_slab(u32 slab, const float (&v)[kSlabColumns / 2]) const {
    constexpr int kStride = (kGated ? 4 : 8) * kBytesD;  // between a thread's neighbouring 8-column tiles
    const int first = (thread() & 3) * (kGated ? 1 : 2) * kBytesD;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = thread() / 32 * 16 + thread() % 32 / 4 + 8 * r;
      const u32 line = slab + row * kSlabRowBytes + (first & 15);
      const u32 chunk = (swizzle<kSlabRowBytes>(row) << 4) ^ (first & ~15);
#pragma unroll
      for (int j = 0; j < kSlabColumns / 8; ++j) {
        const Pair<cfg::kTypeD> pair = pack_pair<cfg::kTypeD>(v[4 * j + 2 * r], v[4 * j + 2 * r + 1]);
        const u32 at = line + (chunk ^ (j * kStride & ~15)) + (j * kStride & 15);
        constexpr int kPiece = kBytesD * (kGated ? 1 : 2);
        if constexpr (kPiece == 8) {
          asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(pair.words[0]), "r"(pair.words[1]) : "memory");
        } else if constexpr (kPiece == 4) {
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair.words[0]) : "memory");
        } else if constexpr (kPiece == 2) {
          asm volatile("{ .reg .b16 x; cvt.u16.u32 x, %1; st.shared.b16 [%0], x; }" ::"r"(at), "r"(pair.words[0])
                       : "memory");
        } else {
          asm volatile("st.shared.u8 [%0], %1;" ::"r"(at), "r"(pair.words[0]) : "memory");
        }
      }
    }
  }
};

}  // namespace ts::gemm
