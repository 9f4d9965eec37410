// What the producer warpgroups of decode's kernels for Hopper have in common: rows of queries and keys, copied by
// cp.async, 16 bytes at a time, into columns of 128 bytes with the swizzle of wgmma. Each row is looked up, so that pages
// may have any size. A thread has the same chunk of every column of the same few rows.
//
// Needs of a layout: kTileM, kColumn, kColumnBytes, kColumnsQk, kQueryColumnBytes, kProducerThreads, Producers, and a map
// of shared memory with queries(), query_full() and query_empty().
#pragma once

#include "../piece_work.cuh"

namespace ts {

// Arrives at a barrier when all copies of this thread so far have arrived.
TS_DEVICE void arrive_after_copies(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

template <class Kernel>
struct Copier : PieceWork<Kernel, Producers> {
  static constexpr int kChunks = kColumnBytes / 16;
  static constexpr int kRowsAtOnce = kProducerThreads / kChunks;

  u32 query_parity = 1;
  PagesOfStep<cfg::kTileN> pages;  // kPaged

  using Work = PieceWork<Kernel, Producers>;
  using Work::args, Work::item, Work::lane, Work::piece, Work::shared, Work::Work;

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return 0; }
  TS_DEVICE static int row() { return Producers::thread() / kChunks; }
  TS_DEVICE static int chunk() { return Producers::thread() % kChunks; }

  // Where the thread's first row of a column lies; the others are kRowsAtOnce rows apart, in the same place of the
  // swizzle.
  TS_DEVICE static u32 place_in_column() { return row() * kColumnBytes + (chunk() ^ (row() & 7)) * 16; }

  // A column of the thread's rows, which have kDim elements; those that are null become zeros.
  template <int kDim, int kRows>
  TS_DEVICE void copy_column(u32 destination, const char* const (&rows)[kRows], int column) const {
    const bool within = kDim % kColumn == 0 || column * kColumn + chunk() * 8 < kDim;
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
      rows[i] = of_tile < count ? this->row_of(args.q, args.q_strides, of_tile) + 16 * chunk() : nullptr;
    }
#pragma unroll 1
    for (int column = 0; column < kColumnsQk; ++column)
      copy_column<cfg::kHeadDimQk>(map().queries() + column * kQueryColumnBytes, rows, column);
    arrive_after_copies(map().query_full());
  }

  // The thread's rows of the kTileN keys from `first` on, whose pages have been looked up; null where no query sees the
  // key.
  template <int kRows>
  TS_DEVICE void find_rows(const KeyRows& from, int first, const char* (&rows)[kRows]) const {
    i64 offsets[PagesOfStep<cfg::kTileN>::kShare];
    if constexpr (cfg::kPaged) {
#pragma unroll
      for (int i = 0; i < PagesOfStep<cfg::kTileN>::kShare; ++i) offsets[i] = pages.offset(args, from, first, i);
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

  // The lane's box of a column.
  TS_DEVICE void copy_box(u32 destination, const TsCudaTensorMap& of, u32 full, int column, const Box& box) const {
    if (box.of_step < cfg::kTileN)
      tma_load_4d(destination + box.of_step * kColumnBytes, &of, full, column * kColumn, box.row, item.head_kv, box.batch);
  }

  TS_DEVICE void finish(int) const {}
};

}  // namespace ts
