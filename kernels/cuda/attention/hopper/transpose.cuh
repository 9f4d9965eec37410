// The producer's warpgroup for fp8. Its first thread feeds the consumers, as for 16 bits. All four warps transpose the
// values, because the tensor cores read 8-bit operands only contiguous along the summed index, here the keys.
//
// A unit of work is 32 keys by 16 columns of the head dimension. ldmatrix treats two bytes as one element, so a lane
// receives two neighbouring columns of two neighbouring keys. A byte permutation separates the columns, and stmatrix
// stores rows of keys, in the order in which the lanes hold the probabilities (softmax.cuh).
#pragma once

#include "../../common/matrices.cuh"
#include "producer.cuh"

namespace ts {

struct Transposer {
  const Shared& shared;
  RingPlace<cfg::kStages> values;
  RingPlace<cfg::kFp8 ? kRawStages : 1> raws;

  // Transposes one block. `tail` of its keys belong to the sequence; in a packed tensor the keys after them belong to
  // another sequence and may be NaN. They are overwritten with zeros, because a probability of zero times NaN is NaN.
  TS_DEVICE void run(int tail) {
    const u32 thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 raw = shared.raw(raws.index), value = shared.value(values.index);
    mbarrier_wait(shared.raw_full(raws.index), raws.phase);
    if (cfg::kGroupMode && tail < cfg::kTileN) {
      // Unrolled by the compiler, the second column's loop added a step twice to its addresses (ptxas 13.0, two columns).
      const int chunks = (cfg::kTileN - tail) * (kColumnBytes / 16);
#pragma unroll 1
      for (int c = 0; c < kColumnsV; ++c) {
        const u32 to = raw + (c * cfg::kTileN + tail) * kColumnBytes;
#pragma unroll 1
        for (int i = thread; i < chunks; i += 128)
          asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to + 16 * i), "r"(0) : "memory");
      }
      named_barrier_sync(7, 128);
    }
    mbarrier_wait(shared.value_empty(values.index), values.phase ^ 1);
    // A warp takes every fourth group of 16 columns. Addresses of units differ by constants; the swizzle's exclusive or
    // changes other bits than those constants.
    constexpr int kKeyGroups = cfg::kTileN / 32, kColumnGroups = kOutputColumns / 16;
    constexpr int kUnits = ceil_div(kColumnGroups, 4) * kKeyGroups, kBatch = kNarrowProducer ? 1 : 2;
    const u32 from = raw + lane * kColumnBytes + (warp ^ (lane & 7)) * 16;
    // Matrix m of a store holds the unit's keys from 16 * (m & 1) on. Its lower four rows are columns of one parity and
    // its upper four of the other, so that no two rows share a bank.
    const u32 upper = lane >> 4, parities = upper ? 0x75316420 : 0x64207531;
    const u32 row = 2 * (lane & 7) + ((lane >> 4) ^ (lane >> 2 & 1));
    const u32 to = value + (warp * 16 + row) * kColumnBytes + ((lane >> 3 & 1) ^ (row & 7)) * 16;
#pragma unroll
    for (int first = 0; first < kUnits; first += kBatch) {
      u32 r[kBatch][4];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int step = (first + j) / kKeyGroups, keys = (first + j) % kKeyGroups;
        if (first + j < kUnits && (kColumnGroups % 4 == 0 || warp + 4 * step < kColumnGroups))
          load_matrices_transposed(r[j], (from ^ step % 2 * 64) + (step / 2 * cfg::kTileN + keys * 32) * kColumnBytes);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int step = (first + j) / kKeyGroups, keys = (first + j) % kKeyGroups;
        if (first + j < kUnits && (kColumnGroups % 4 == 0 || warp + 4 * step < kColumnGroups)) {
          store_matrices((to ^ keys % 4 * 32) + (keys / 4 * kOutputColumns + step * 64) * kColumnBytes,
                         __byte_perm(r[j][0], r[j][1], parities >> 16), __byte_perm(r[j][2], r[j][3], parities >> 16),
                         __byte_perm(r[j][0], r[j][1], parities), __byte_perm(r[j][2], r[j][3], parities));
        }
      }
    }
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      mbarrier_arrive(shared.value_full(values.index));
      mbarrier_arrive(shared.raw_empty(raws.index));
    }
    values.advance();
    raws.advance();
  }
};

// All threads of the producer's warpgroup.
TS_DEVICE void produce_fp8(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps) {
  const bool leader = threadIdx.x == 0;
  Producer producer{shared, maps};
  Transposer transposer{shared};
  TileRing pushed, popped;
  Walk walk;
  if (leader) producer.start(args, walk);
  bool late = false;  // a block's values are loaded and not yet transposed
  int late_tail = 0;
  while (true) {
    Tile t, next;
    take_together(args, shared, leader, walk, pushed, popped, next, t);
    if (t.n_end == 0) break;
    const int head = t.head / static_cast<int>(args.heads_q / args.heads_kv);
    const int batch = cfg::kGroupMode ? 0 : t.batch;
    for (int n = t.n_end - 1; n >= t.n_begin; --n) {
      if (leader) {
        if (Walk::is_due(t, n)) walk.draw(args);
        const int key = n * cfg::kTileN + t.offset_k;
        producer.load_keys(key, head, batch);
        producer.load_values(key, head, batch);
      }
      __syncwarp();
      if (late) transposer.run(late_tail);
      late = true;
      late_tail = imax(0, imin(cfg::kTileN, t.length.k - n * cfg::kTileN));
      if (leader && n == t.n_end - 1) producer.load_queries(t);
      __syncwarp();
    }
    if (leader) walk.advance(args);
  }
  if (late) transposer.run(late_tail);
  if (leader) walk.finish(args);
}

}  // namespace ts
