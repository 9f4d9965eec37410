// The copies of latent rows of 8 bits: each warp has every fourth unit, and a lane asks the copy engine for a whole row, so
// that pages may have any size.
#pragma once

#include "narrow_layout.cuh"

#include "../piece_work.cuh"

namespace ts {

struct NarrowProducer : PieceWork<NarrowProducer, Producers> {
  PagesOfStep<kUnitKeys, kLooksLate> pages;  // kPaged
  u32 done = 0;                              // units of the pieces before
  bool has_begun = false;

  using PieceWork<NarrowProducer, Producers>::PieceWork;

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return 0; }
  TS_DEVICE static int warp() { return Producers::thread() / 32; }
  TS_DEVICE int first_key(int unit) const { return piece.first_tile * kTileKeys + unit * kUnitKeys; }

  // Rows that no query sees become zeros: their probabilities are 0, and what lies in memory may be NaN.
  TS_DEVICE void clear_rows(u32 unit, u32 rows) const {
#pragma unroll 1
    for (; rows != 0; rows &= rows - 1)
      for (int at = 16 * lane(); at < cfg::kHeadDimQk; at += 16 * 32)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(map().row(unit, __ffs(rows) - 1) + at), "r"(0)
                     : "memory");
    fence_proxy_async();
    __syncwarp();
  }

  TS_DEVICE void copy(const KeyRows& keys, int unit) {
    const int first = first_key(unit), key = first + lane();
    const u32 place = done + unit, index = place % kUnits, full = map().full(index);
    const bool copies = key >= piece.begin && key < piece.end;
    const u32 copied = __ballot_sync(0xffffffffu, copies);
    i64 at;
    if constexpr (cfg::kPaged)
      at = pages.offset(args, keys, first, 0);
    else
      at = key * keys.row_bytes;
    mbarrier_wait(map().empty(index), (place / kUnits & 1) ^ 1);
    if (copied != 0xffffffffu) clear_rows(index, ~copied);
    if (lane() == 0) mbarrier_expect(full, __popc(copied) * cfg::kHeadDimQk);
    __syncwarp();
    if (copies) bulk_load(map().row(index, lane()), keys.base + at, cfg::kHeadDimQk, full);
  }

  // The first queries go before the first keys.
  TS_DEVICE void wait_for_queries() {
    if (!has_begun) named_barrier_sync(kQueriesUnderWay, kThreads);
    has_begun = true;
  }

  TS_DEVICE void walk() {
    const KeyRows keys(args, item, args.k, args.k_strides);
    const int units = kUnitsOfStep * (piece.end_tile - piece.first_tile);
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(warp()));
    wait_for_queries();
#pragma unroll 1
    for (int unit = warp(); unit < units; unit += kProducerWarps) {
      if constexpr (cfg::kPaged) {
        pages.advance(args);
        pages.look_up(args, item, piece, first_key(unit + kProducerWarps));
      }
      copy(keys, unit);
    }
    done += units;
  }

  TS_DEVICE void finish(int) const {}
};

}  // namespace ts
