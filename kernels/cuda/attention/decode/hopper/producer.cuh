// The copies of latent rows into the ring: by the copy engine where all rows of a half step are seen and lie in tensors,
// else row by row.
#pragma once

#include "layout.cuh"

#include "copier.cuh"

namespace ts {

struct Producer : Copier<Producer> {
  const TsCudaTensorMap& rows_map;
  KeyRing ring;

  TS_DEVICE Producer(const TsCudaTensorMap& of_rows, const TsCudaDecodeArgs& arguments, u32 memory)
      : Copier<Producer>(arguments, memory), rows_map(of_rows) {}

  TS_DEVICE int first_key(int half_step) const { return piece.first_tile * kTileKeys + half_step * cfg::kTileN; }

  // A warp has every fourth column, in the order in which they come free: one that waits holds none up that has come free.
  TS_DEVICE void copy_boxes(int first, int half) const {
    const Box box = box_of_lane(first);
#pragma unroll 1
    for (int n = Producers::thread() / 32; n < kColumnsQk; n += kProducerThreads / 32) {
      const int column = column_of(half, n);
      const u32 full = map().full(ring.index, half, column);
      mbarrier_wait(map().empty(ring.index, half, column), ring.phase ^ 1);
      if (lane() == 0) {
        mbarrier_arrive(full, kProducerThreads - 1);
        mbarrier_expect(full, kKeyColumnBytes);
      }
      __syncwarp();
      copy_box(map().keys(ring.index, half) + column * kKeyColumnBytes, rows_map, full, column, box);
    }
  }

  TS_DEVICE void copy_rows(const KeyRows& keys, int first, int half) const {
    const char* rows[cfg::kTileN / kRowsAtOnce];
    find_rows(keys, first, rows);
#pragma unroll 1
    for (int n = 0; n < kColumnsQk; ++n) {
      const int column = column_of(half, n);
      mbarrier_wait(map().empty(ring.index, half, column), ring.phase ^ 1);
      copy<2 * cfg::kHeadDimQk>(map().keys(ring.index, half) + column * kKeyColumnBytes, rows, column, args.k);
      arrive_after_copies(map().full(ring.index, half, column));
    }
  }

  TS_DEVICE void walk() {
    const KeyRows keys(args, item, args.k, args.k_strides);
    const int half_steps = kHalves * (piece.end_tile - piece.first_tile);
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
    wait_for_queries();
#pragma unroll 1
    for (int half_step = 0; half_step < half_steps; ++half_step) {
      const int half = half_step % kHalves, first = first_key(half_step);
      if constexpr (cfg::kPaged) {
        pages.advance(args);
        pages.look_up(args, item, piece, first_key(half_step + 1));
      }
      if (comes_by_engine(args, piece, first, cfg::kTileN))
        copy_boxes(first, half);
      else
        copy_rows(keys, first, half);
      if (half == kHalves - 1) ring.advance();
    }
  }
};

}  // namespace ts
