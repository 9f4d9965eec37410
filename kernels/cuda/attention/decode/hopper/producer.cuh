// The copies of latent rows into the ring.
#pragma once

#include "layout.cuh"

#include "copier.cuh"

namespace ts {

struct Producer : Copier<Producer> {
  KeyRing ring;

  using Copier<Producer>::Copier;

  TS_DEVICE int first_key(int half_step) const { return piece.first_tile * kTileKeys + half_step * cfg::kTileN; }

  TS_DEVICE void walk() {
    copy_queries();
    const KeyRows keys(args, item, args.k, args.k_strides);
    const int half_steps = kHalves * (piece.end_tile - piece.first_tile);
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
#pragma unroll 1
    for (int half_step = 0; half_step < half_steps; ++half_step) {
      const int half = half_step % kHalves;
      const char* rows[cfg::kTileN / kRowsAtOnce];
      if constexpr (cfg::kPaged) {
        pages.advance();
        pages.look_up(args, item, piece, first_key(half_step + 1));
      }
      find_rows(keys, first_key(half_step), rows);
      // In the order in which consumers give columns back: first those that are no values.
#pragma unroll 1
      for (int column = kColumnsQk - 1; column >= 0; --column) {
        mbarrier_wait(map().empty(ring.index, half, column), ring.phase ^ 1);
        copy_column<cfg::kHeadDimQk>(map().keys(ring.index, half) + column * kKeyColumnBytes, rows, column);
        arrive_after_copies(map().full(ring.index, half, column));
      }
      if (half == kHalves - 1) ring.advance();
    }
  }
};

}  // namespace ts
