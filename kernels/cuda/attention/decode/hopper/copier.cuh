// What the producer warpgroups of decode's kernels for Hopper have in common: rows of keys, which are looked up one by one,
// so that pages may have any size.
//
// Needs of a layout: Producers and kLooksLate, beside what columns.cuh needs.
#pragma once

#include "columns.cuh"

namespace ts {

template <class Kernel>
struct Copier : PieceWork<Kernel, Producers>, Columns<Producers> {
  using Pages = PagesOfStep<cfg::kTileN, kLooksLate>;
  Pages pages;  // kPaged
  bool has_begun = false;

  using Work = PieceWork<Kernel, Producers>;
  using Work::args, Work::item, Work::lane, Work::piece, Work::shared, Work::Work;

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return 0; }

  // The thread's rows of the kTileN keys from `first` on, whose pages have been looked up; null where no query sees the
  // key.
  template <int kRows>
  TS_DEVICE void find_rows(const KeyRows& from, int first, const char* (&rows)[kRows]) const {
    i64 offsets[Pages::kShare];
    if constexpr (cfg::kPaged) {
#pragma unroll
      for (int i = 0; i < Pages::kShare; ++i) offsets[i] = pages.offset(args, from, first, i);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int of_step = row() + i * kRowsAtOnce, key = first + of_step;
      const i64 at = cfg::kPaged ? __shfl_sync(0xffffffffu, offsets[i * kRowsAtOnce / 32], of_step % 32)
                                 : key * from.row_bytes;
      rows[i] = key >= piece.begin && key < piece.end ? from.base + at + 16 * chunk() : nullptr;
    }
  }

  // Of the keys that the copy engine brings in a step, those that a lane asks for; the step's boxes are the first lanes'.
  struct Box {
    int of_step, row, batch;
  };

  // From the kTileN keys from `first` on, whose pages have been looked up. A box lies in one page.
  TS_DEVICE Box box_of_lane(int first) const {
    const int at = lane() * args.map_rows, of_step = imin(at, cfg::kTileN - args.map_rows), key = first + of_step;
    if constexpr (!cfg::kPaged) return {at, key, item.batch};
    int number = 0;
#pragma unroll
    for (int i = 0; i < pages.kShare; ++i) {
      const int of_share = __shfl_sync(0xffffffffu, pages.numbers[i], of_step % 32);
      if (of_step / 32 == i) number = of_share;
    }
    return {at, key - page_of(args, key) * static_cast<int>(args.paged.page_size), number};
  }

  // The lane's box of a column. Of tensors each key is read once where a tile has all rows; pages may be several
  // sequences'.
  TS_DEVICE void copy_box(u32 destination, const TsCudaTensorMap& of, u32 full, int column, const Box& box) const {
    if (box.of_step >= cfg::kTileN) return;
    constexpr int kElements = kColumnBytes / kKeyBytes;
    const u32 to = destination + box.of_step * kColumnBytes;
    if (!cfg::kPaged && args.row_blocks == 1)
      tma_load_4d(to, &of, full, column * kElements, box.row, item.head_kv, box.batch, l2_evict_first());
    else
      tma_load_4d(to, &of, full, column * kElements, box.row, item.head_kv, box.batch);
  }

  // The first queries go before the first keys: behind them they would come after 3 us, where keys take all of the
  // bandwidth. Later ones come while keys are in the ring.
  TS_DEVICE void wait_for_queries() {
    if (!has_begun) named_barrier_sync(kQueriesUnderWay, kThreads);
    has_begun = true;
  }

  TS_DEVICE void finish(int) const {}
};

}  // namespace ts
