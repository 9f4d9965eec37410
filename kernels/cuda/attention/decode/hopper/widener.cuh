// The copies of latent rows of 8 bits, and their elements of fp16 in the ring. A warp has eight rows of a half step: it asks
// the copy engine for each, whole, and widens them when others are on their way, so that no other warp need know of them.
#pragma once

#include "layout.cuh"

#include "copier.cuh"

namespace ts {

struct Widener : Copier<Widener> {
  static constexpr int kRows = cfg::kTileN / kProducerWarps, kLanesOfRow = 32 / kRows;
  static constexpr int kAhead = kRawHalves - 1;  // half steps that are copied before one is widened
  static constexpr int kTogether = 3;            // columns of a thread whose elements are loaded before one is widened

  RingPlace<kRawHalves> copied, widened;
  KeyRing ring;

  using Copier<Widener>::Copier;

  TS_DEVICE static int warp() { return Producers::thread() / 32; }
  TS_DEVICE int first_key(int half_step) const { return piece.first_tile * kTileKeys + half_step * cfg::kTileN; }
  TS_DEVICE bool sees(int key) const { return key >= piece.begin && key < piece.end; }

  // Rows that no query sees stay where they are.
  TS_DEVICE void copy(const KeyRows& keys, int first) {
    const int row = warp() * kRows + lane() % kRows, key = first + row;
    i64 at;
    if constexpr (cfg::kPaged)
      at = __shfl_sync(0xffffffffu, pages.offset(args, keys, first, 0), row);
    else
      at = key * keys.row_bytes;
    const bool copies = lane() < kRows && sees(key);
    const u32 full = map().raw_full(copied.index, warp());
    const int count = __popc(__ballot_sync(0xffffffffu, copies));
    if (lane() == 0) mbarrier_expect(full, count * cfg::kHeadDimQk);
    __syncwarp();
    if (copies) bulk_load(map().raw_row(copied.index, row), keys.base + at, cfg::kHeadDimQk, full);
    copied.advance();
  }

  // A thread widens sixteen elements of each column of a row, two chunks; rows that no query sees become zeros.
  TS_DEVICE void widen_half(int first, int half) {
    const int row = warp() * kRows + lane() / kLanesOfRow, part = lane() % kLanesOfRow;
    const bool seen = sees(first + row);
    const u32 from = map().raw_row(widened.index, row) + 16 * part;
    const u32 to = map().keys(0, half) + row * kColumnBytes + (2 * part ^ (row & 7)) * 16;
    mbarrier_wait(map().raw_full(widened.index, warp()), widened.phase);
#pragma unroll 1
    for (int n = 0; n < kColumnsQk; n += kTogether) {
      u32 x[kTogether][4];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int column = column_of(half, imin(n + i, kColumnsQk - 1));
        x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0;
        if (seen && (cfg::kHeadDimQk % kColumn == 0 || column * kColumn + 16 * part < cfg::kHeadDimQk))
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                       : "r"(from + column * kRawColumnBytes)
                       : "memory");
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (kColumnsQk % kTogether != 0 && n + i >= kColumnsQk) continue;
        const int column = column_of(half, n + i);
        u32 pairs[4][2];
#pragma unroll
        for (int j = 0; j < 4; ++j) widen<false>(x[i][j], pairs[j]);
        mbarrier_wait(map().empty(0, half, column), ring.phase ^ 1);
        const u32 place = to + column * kKeyColumnBytes;
        store_chunk(place, {pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]});
        store_chunk(place ^ 16, {pairs[2][0], pairs[2][1], pairs[3][0], pairs[3][1]});
      }
      fence_proxy_async();
      __syncwarp();
      if (lane() < kTogether && n + lane() < kColumnsQk) mbarrier_arrive(map().full(0, half, column_of(half, n + lane())));
    }
    widened.advance();
    if (half == kHalves - 1) ring.advance();
  }

  TS_DEVICE void walk() {
    const KeyRows keys(args, item, args.k, args.k_strides);
    const int half_steps = kHalves * (piece.end_tile - piece.first_tile);
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
    wait_for_queries();
#pragma unroll 1
    for (int half_step = 0; half_step < half_steps + kAhead; ++half_step) {
      if (half_step < half_steps) {
        if constexpr (cfg::kPaged) {
          pages.advance(args);
          pages.look_up(args, item, piece, first_key(half_step + 1));
        }
        copy(keys, first_key(half_step));
      }
      const int late = half_step - kAhead;
      if (late >= 0) widen_half(first_key(late), late % kHalves);
    }
  }
};

}  // namespace ts
