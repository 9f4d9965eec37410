// The copies of latent rows of 8 bits: each warp has every fourth unit, by the copy engine where all of its rows are seen
// and lie in tensors or in pages of whole boxes, else row by row, so that pages may have any size.
#pragma once

#include "narrow_layout.cuh"

#include "../piece_work.cuh"

namespace ts {

struct NarrowProducer : PieceWork<NarrowProducer, Producers> {
  const TsCudaTensorMap& rows_map;
  PagesOfStep<kUnitKeys, kLooksLate> pages;  // kPaged
  u32 done = 0;                              // units of the pieces before
  bool has_begun = false;

  TS_DEVICE NarrowProducer(const TsCudaTensorMap& of_rows, const TsCudaDecodeArgs& arguments, u32 memory)
      : PieceWork<NarrowProducer, Producers>(arguments, memory), rows_map(of_rows) {}

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return 0; }
  TS_DEVICE static int warp() { return Producers::thread() / 32; }
  TS_DEVICE int first_key(int unit) const { return piece.first_tile * kTileKeys + unit * kUnitKeys; }

  // A unit's place in the ring, once what it had has been read.
  TS_DEVICE u32 take_place(int unit) const {
    const u32 place = done + unit, index = place % kUnits;
    mbarrier_wait(map().empty(index), (place / kUnits & 1) ^ 1);
    return index;
  }

  // The lanes' boxes of a unit, each of which lies in one page. A row of a box is as long as the pitch: what it has behind
  // the elements lies outside the tensor.
  TS_DEVICE void copy_boxes(int unit) const {
    const int at = lane() * args.map_rows, of_unit = imin(at, kUnitKeys - args.map_rows), key = first_key(unit) + of_unit;
    int row = key, member = item.batch;
    if constexpr (cfg::kPaged) {
      row -= page_of(args, key) * static_cast<int>(args.paged.page_size);
      member = __shfl_sync(0xffffffffu, pages.numbers[0], of_unit);
    }
    const u32 index = take_place(unit), full = map().full(index);
    if (lane() == 0) {
      mbarrier_arrive(full, 31);
      mbarrier_expect(full, kUnitBytes);
    }
    __syncwarp();
    if (at < kUnitKeys) tma_load_4d(map().row(index, of_unit), &rows_map, full, 0, row, item.head_kv, member);
  }

  // Four lanes have a row, and a warp eight at once. Rows that no query sees become zeros: their probabilities are 0, and
  // what lies in memory may be NaN.
  TS_DEVICE void copy_rows(const KeyRows& keys, int unit) {
    constexpr int kLanesOfRow = 4, kRowsAtOnce = 32 / kLanesOfRow, kChunks = cfg::kHeadDimQk / 16;
    const int first = first_key(unit), key = first + lane(), of_row = lane() % kLanesOfRow;
    i64 at;
    if constexpr (cfg::kPaged)
      at = pages.offset(args, keys, first, 0);
    else
      at = key * keys.row_bytes;
    const bool seen = key >= piece.begin && key < piece.end;
    const auto own = reinterpret_cast<unsigned long long>(seen ? keys.base + at : nullptr);
    const u32 index = take_place(unit);
#pragma unroll 1
    for (int row = lane() / kLanesOfRow; row < kUnitKeys; row += kRowsAtOnce) {
      const auto from = reinterpret_cast<const char*>(__shfl_sync(0xffffffffu, own, row));
      const char* const chunk = from != nullptr ? from + 16 * of_row : static_cast<const char*>(args.k);
      const u32 to = map().row(index, row) + 16 * of_row;
#pragma unroll
      for (int i = 0; i < kChunks; i += kLanesOfRow)
        if (kChunks % kLanesOfRow == 0 || i + of_row < kChunks)
          copy_async(to + 16 * i, from != nullptr ? chunk + 16 * i : chunk, from != nullptr);
    }
    arrive_after_copies(map().full(index));
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
      if (comes_by_engine(args, piece, first_key(unit), kUnitKeys))
        copy_boxes(unit);
      else
        copy_rows(keys, unit);
    }
    done += units;
  }

  TS_DEVICE void finish(int) const {}
};

}  // namespace ts
