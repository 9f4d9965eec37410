// The producer's warpgroup for pages of 8 bits. Its first warp copies keys and the second one values, narrow, into rings of
// their own; all four widen them to the queries' type, where the consumers take them. Rows that no query of the sequence
// sees become zeros.
#pragma once

#include "../decode/narrow.cuh"
#include "producer.cuh"

namespace ts {

template <bool kKeys>
struct PageWidener {
  static constexpr int kDim = kKeys ? cfg::kHeadDimQk : cfg::kHeadDimV, kColumns = ceil_div(kDim, kColumn);
  static constexpr int kChunks = kColumnBytes / 16, kRowsAtOnce = 128 / kChunks;

  const Shared& shared;
  RingPlace<kWidens ? kRawStages : 1> raw;
  RingPlace<cfg::kStages> place;

  // A block whose rows begin .. end - 1 are seen. A thread widens sixteen elements of a row at a time, which are two
  // chunks of a column of twice the bytes. Lanes of the two halves of a row store them in opposite order, for their
  // columns share the banks.
  TS_DEVICE void run(int begin, int end) {
    const int chunk = threadIdx.x % kChunks;
    const u32 raw_full = kKeys ? shared.raw_keys_full(raw.index) : shared.raw_full(raw.index);
    const u32 from = kKeys ? shared.raw_keys(raw.index) : shared.raw(raw.index);
    const u32 to = kKeys ? shared.key(place.index) : shared.value(place.index);
    mbarrier_wait(raw_full, raw.phase);
    mbarrier_wait(kKeys ? shared.key_empty(place.index) : shared.value_empty(place.index), place.phase ^ 1);
#pragma unroll 1
    for (int c = 0; c < ceil_div(kDim, kColumnBytes); ++c) {
      const int column = 2 * c + chunk / 4, second = chunk / 4;
#pragma unroll 2
      for (int row = threadIdx.x / kChunks; row < cfg::kTileN; row += kRowsAtOnce) {
        u32 x[4] = {}, wide[8];
        const u32 swizzle = row & 7;
        if (row >= begin && row < end)
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                       : "r"(from + (c * cfg::kTileN + row) * kColumnBytes + ((chunk ^ swizzle) * 16))
                       : "memory");
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          u32 pairs[2];
          widen<cfg::kBf16>(x[i], pairs);
          wide[2 * i] = pairs[0];
          wide[2 * i + 1] = pairs[1];
        }
        if (column < kColumns) {
          const u32 row_of_column = to + (column * cfg::kTileN + row) * kColumnBytes;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const bool high = i != second;
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(row_of_column +
                                                                          ((chunk % 4 * 2 + high) ^ swizzle) * 16),
                         "r"(high ? wide[4] : wide[0]), "r"(high ? wide[5] : wide[1]), "r"(high ? wide[6] : wide[2]),
                         "r"(high ? wide[7] : wide[3])
                         : "memory");
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
TS_DEVICE void produce_widened(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps) {
  const int warp = static_cast<int>(uniform(threadIdx.x / 32));
  const bool leader = threadIdx.x == 0;
  Producer producer{shared, maps};
  PageCopier<true> keys{shared, maps.k, args, 0};
  PageCopier<false> values{shared, maps.v, args, 0};
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
    if (warp == 0) keys.start(t);
    if (warp == 1) values.start(t);
    const int begin = key_begin(args, t.length, 0), end = key_end(args, t.length, t.length.q - 1);
#pragma unroll 1
    for (int n = t.n_end - 1; n >= t.n_begin; --n) {
      if (leader && Walk::is_due(t, n)) walk.draw(args);
      __syncwarp();
      if (warp == 0) keys.pass(n);
      if (warp == 1) values.pass(n);
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
    if (leader) walk.advance();
  }
  if (late) {
    wide_keys.run(late_begin, late_end);
    wide_values.run(late_begin, late_end);
  }
  if (leader) walk.finish(args);
}

}  // namespace ts
