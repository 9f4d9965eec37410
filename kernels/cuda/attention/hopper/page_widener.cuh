// The producer's warpgroup for pages of 8 bits. Its first warp copies keys and the second one values, narrow, into rings of
// their own; all four widen them to the queries' type, where the consumers take them. Rows that no query of the sequence
// sees become zeros.
#pragma once

#include "../decode/narrow.cuh"
#include "producer.cuh"

namespace ts {

TS_DEVICE void store_chunk(u32 address, const u32 (&a)[2], const u32 (&b)[2]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1])
               : "memory");
}

template <bool kKeys>
struct PageWidener {
  static constexpr int kDim = kKeys ? cfg::kHeadDimQk : cfg::kHeadDimV, kColumns = ceil_div(kDim, kColumn);
  static constexpr int kChunks = kColumnBytes / 16, kRowsAtOnce = 128 / kChunks;

  const Shared& shared;
  RingPlace<kWidens ? kRawStages : 1> raw;
  RingPlace<cfg::kStages> place;

  // A block whose rows begin .. end - 1 are seen. A thread widens sixteen elements of a row at a time, which are two
  // chunks of a column of twice the bytes. The second halves of rows that are neighbours change places, for their columns
  // share the banks. Several rows are loaded before the first is widened, so that no load is waited for alone.
  TS_DEVICE void run(int begin, int end) {
    constexpr int kSteps = ceil_div(cfg::kTileN, kRowsAtOnce), kTogether = kSteps % 4 == 0 ? 4 : kSteps % 3 == 0 ? 3 : kSteps % 5 == 0 ? 5 : 1;
    const u32 chunk = threadIdx.x % kChunks;
    const int first = static_cast<int>(threadIdx.x / kChunks ^ chunk / 4);
    const u32 swizzle = first & 7;  // of all its rows
    const u32 raw_full = kKeys ? shared.raw_keys_full(raw.index) : shared.raw_full(raw.index);
    const u32 from = (kKeys ? shared.raw_keys(raw.index) : shared.raw(raw.index)) + first * kColumnBytes +
                     ((chunk ^ swizzle) * 16);
    const u32 to = (kKeys ? shared.key(place.index) : shared.value(place.index)) +
                   (chunk / 4 * cfg::kTileN + first) * kColumnBytes;
    const u32 low = to + ((chunk % 4 * 2) ^ swizzle) * 16, high = to + ((chunk % 4 * 2 + 1) ^ swizzle) * 16;
    mbarrier_wait(raw_full, raw.phase);
    mbarrier_wait(kKeys ? shared.key_empty(place.index) : shared.value_empty(place.index), place.phase ^ 1);
#pragma unroll 1
    for (int c = 0; c < ceil_div(kDim, kColumnBytes); ++c) {
      const bool stored = 2 * c + static_cast<int>(chunk / 4) < kColumns;
#pragma unroll 1
      for (int step = 0; step < kSteps; step += kTogether) {
        const int row = first + step * kRowsAtOnce;
        const u32 of_rows = (c * cfg::kTileN + step * kRowsAtOnce) * kColumnBytes;
        u32 x[kTogether][4];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0;
          if (row + i * kRowsAtOnce >= begin && row + i * kRowsAtOnce < end)
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                         : "r"(from + of_rows + i * kRowsAtOnce * kColumnBytes)
                         : "memory");
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          u32 wide[4][2];
#pragma unroll
          for (int j = 0; j < 4; ++j) widen<cfg::kBf16>(x[i][j], wide[j]);
          // A column of elements as they come is two of widened ones.
          const u32 place_of_row = of_rows + i * kRowsAtOnce * kColumnBytes + c * cfg::kTileN * kColumnBytes;
          if (stored) {
            store_chunk(low + place_of_row, wide[0], wide[1]);
            store_chunk(high + place_of_row, wide[2], wide[3]);
          }
        }
      }
    }
    fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      mbarrier_arrive(kKeys ? shared.key_full(place.index) : shared.value_full(place.index));
      mbarrier_arrive(kKeys ? shared.raw_keys_empty(raw.index) : shared.raw_empty(raw.index));
    }
    raw.advance();
    place.advance();
  }
};

// All threads of the producer's warpgroup. A block is widened when the one after it is being copied.
template <bool kInRows>
TS_DEVICE void produce_widened(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps) {
  const int warp = static_cast<int>(uniform(threadIdx.x / 32));
  const bool leader = threadIdx.x == 0;
  Producer producer{shared, maps};
  PageCopier<true> keys{shared, maps.k, args};
  PageCopier<false> values{shared, maps.v, args};
  PagedBlock<kInRows> ahead;  // of the first two warps: the block to be copied next
  PageWidener<true> wide_keys{shared};
  PageWidener<false> wide_values{shared};
  TileRing pushed, popped;
  Walk walk;
  if (leader) producer.start(args, walk);
  bool late = false;  // a block is copied and not yet widened
  int late_begin = 0, late_end = 0;
  while (true) {
    Tile t, next;
    take_together(args, shared, leader, walk, pushed, popped, next, t);
    if (t.n_end == 0) break;
    if (warp < 2) {
      ahead.enter(args, t);
      ahead.look(args);
    }
    const int begin = key_begin(args, t.length, 0), end = key_end(args, t.length, t.length.q - 1);
#pragma unroll 1
    for (int n = t.n_end - 1; n >= t.n_begin; --n) {
      if (leader && Walk::is_due(t, n)) walk.draw(args);
      __syncwarp();
      if (warp < 2) {
        const PagedBlock<kInRows> block = ahead;
        ahead.first -= cfg::kTileN;
        if (n > t.n_begin) ahead.look(args);
        if (warp == 0)
          keys.copy(block);
        else
          values.copy(block);
      }
      if (late) {
        wide_keys.run(late_begin, late_end);
        wide_values.run(late_begin, late_end);
      }
      late = true;
      late_begin = begin - n * cfg::kTileN;
      late_end = end - n * cfg::kTileN;
      if (leader && n == t.n_end - 1) producer.load_queries(t);
      __syncwarp();
    }
    if (leader) walk.advance(args);
  }
  if (late) {
    wide_keys.run(late_begin, late_end);
    wide_values.run(late_begin, late_end);
  }
  if (leader) walk.finish(args);
}

TS_DEVICE void produce_widened(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps) {
  if (comes_in_boxes(args))
    produce_widened<false>(args, shared, maps);
  else
    produce_widened<true>(args, shared, maps);
}

}  // namespace ts
