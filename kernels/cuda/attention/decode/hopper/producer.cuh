// The copies of latent rows into the ring: a warpgroup that looks each row up and copies it 16 bytes at a time, so that
// pages may have any size. A thread has the same chunk of every column of the same four rows.
#pragma once

#include "layout.cuh"

#include "../piece_work.cuh"

namespace ts {

// Arrives at a barrier when all copies of this thread so far have arrived.
TS_DEVICE void arrive_after_copies(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

struct Producer : PieceWork<Producer, Producers> {
  static constexpr int kChunks = kColumnBytes / 16;
  static constexpr int kRowsAtOnce = kProducerThreads / kChunks;
  static constexpr bool kWhole = cfg::kHeadDimQk % kColumn == 0;

  KeyRing ring;
  u32 query_parity = 1;
  PagesOfStep<cfg::kTileN> pages;  // kPaged

  using PieceWork<Producer, Producers>::PieceWork;

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return 0; }
  TS_DEVICE static int row() { return Producers::thread() / kChunks; }
  TS_DEVICE static int chunk() { return Producers::thread() % kChunks; }

  // Where the thread's first row of a column lies; the others are kRowsAtOnce rows apart, in the same place of the
  // swizzle.
  TS_DEVICE static u32 place_in_column() { return row() * kColumnBytes + (chunk() ^ (row() & 7)) * 16; }

  // A column of the thread's rows; those that are null become zeros.
  template <int kRows>
  TS_DEVICE void copy_column(u32 destination, const char* const (&rows)[kRows], int column) const {
    const bool within = kWhole || column * kColumn + chunk() * 8 < cfg::kHeadDimQk;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool valid = within && rows[i] != nullptr;
      copy_async(destination + place_in_column() + i * kRowsAtOnce * kColumnBytes,
                 valid ? rows[i] + column * kColumnBytes : static_cast<const char*>(args.k), valid);
    }
  }

  TS_DEVICE void copy_queries() {
    mbarrier_wait(map().query_empty(), query_parity);
    query_parity ^= 1;
    const int count = item.rows(args);
    const char* rows[kTileM / kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kTileM / kRowsAtOnce; ++i) {
      const int of_tile = row() + i * kRowsAtOnce;
      rows[i] = of_tile < count ? row_of(args.q, args.q_strides, of_tile) + 16 * chunk() : nullptr;
    }
#pragma unroll 1
    for (int column = 0; column < kColumnsQk; ++column)
      copy_column(map().queries() + column * kQueryColumnBytes, rows, column);
    arrive_after_copies(map().query_full());
  }

  TS_DEVICE int first_key(int half_step) const { return piece.first_tile * kTileKeys + half_step * cfg::kTileN; }

  // The thread's rows of a half of a step; null where no query sees the key.
  template <int kRows>
  TS_DEVICE void find_rows(const KeyRows& from, int half_step, const char* (&rows)[kRows]) {
    const int first = first_key(half_step);
    i64 offsets[PagesOfStep<cfg::kTileN>::kShare];
    if constexpr (cfg::kPaged) {
      pages.advance();
      pages.look_up(args, item, piece, first_key(half_step + 1));
#pragma unroll
      for (int i = 0; i < PagesOfStep<cfg::kTileN>::kShare; ++i) offsets[i] = pages.offset(args, from, first, i);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int of_half = row() + i * kRowsAtOnce, key = first + of_half;
      const i64 at = cfg::kPaged ? __shfl_sync(0xffffffffu, offsets[i * kRowsAtOnce / 32], of_half % 32)
                                 : key * from.row_bytes;
      rows[i] = key >= piece.begin && key < piece.end ? from.base + at + 16 * chunk() : nullptr;
    }
  }

  TS_DEVICE void walk() {
    copy_queries();
    const KeyRows keys(args, item, args.k, args.k_strides);
    const int half_steps = kHalves * (piece.end_tile - piece.first_tile);
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
#pragma unroll 1
    for (int half_step = 0; half_step < half_steps; ++half_step) {
      const int half = half_step % kHalves;
      const char* rows[cfg::kTileN / kRowsAtOnce];
      find_rows(keys, half_step, rows);
      // In the order in which consumers give columns back: first those that are no values.
#pragma unroll 1
      for (int column = kColumnsQk - 1; column >= 0; --column) {
        mbarrier_wait(map().empty(ring.index, half, column), ring.phase ^ 1);
        copy_column(map().keys(ring.index, half) + column * kKeyColumnBytes, rows, column);
        arrive_after_copies(map().full(ring.index, half, column));
      }
      if (half == kHalves - 1) ring.advance();
    }
  }

  TS_DEVICE void finish(int) const {}
};

}  // namespace ts
