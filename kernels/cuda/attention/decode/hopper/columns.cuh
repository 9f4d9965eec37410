// Rows of queries and keys, copied by cp.async, 16 bytes at a time, into columns of 128 bytes with the swizzle of wgmma. A
// thread of a team has the same chunk of every column of the same few rows.
//
// Needs of a layout: kTileM, kColumn, kColumnBytes, kColumnsQk and kQueryColumnBytes.
#pragma once

#include "../piece_work.cuh"

namespace ts {

TS_DEVICE void store_chunk(u32 address, const u32 (&x)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

template <class Team>
struct Columns {
  static constexpr int kChunks = kColumnBytes / 16;
  static constexpr int kRowsAtOnce = Team::kThreads / kChunks;

  TS_DEVICE static int row() { return Team::thread() / kChunks; }
  TS_DEVICE static int chunk() { return Team::thread() % kChunks; }

  // Where the thread's first row of a column lies; the others are kRowsAtOnce rows apart, in the same place of the
  // swizzle.
  TS_DEVICE static u32 place_in_column() { return row() * kColumnBytes + (chunk() ^ (row() & 7)) * 16; }

  // A column of the thread's rows, which have kBytes; those that are null become zeros. `readable` is any address.
  template <int kBytes, int kRows>
  TS_DEVICE static void copy(u32 destination, const char* const (&rows)[kRows], int column, const void* readable) {
    const bool within = kBytes % kColumnBytes == 0 || column * kColumnBytes + chunk() * 16 < kBytes;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool valid = within && rows[i] != nullptr;
      copy_async(destination + place_in_column() + i * kRowsAtOnce * kColumnBytes,
                 valid ? rows[i] + column * kColumnBytes : static_cast<const char*>(readable), valid);
    }
  }

  // The queries of an item, for wgmma of all threads of the team; of the block's first one when `has_begun` is false.
  template <class Work>
  TS_DEVICE static void copy_queries(const Work& work, u32 destination, bool& has_begun) {
    if (has_begun) Team::sync();  // all have read the ones before
    if constexpr (kScaledQueries) return copy_scaled_queries(work, destination, has_begun);
    const int count = work.item.rows(work.args);
    const char* rows[kTileM / kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kTileM / kRowsAtOnce; ++i) {
      const int of_tile = row() + i * kRowsAtOnce;
      rows[i] = of_tile < count ? work.row_of(work.args.q, work.args.q_strides, of_tile) + 16 * chunk() : nullptr;
    }
#pragma unroll 1
    for (int column = 0; column < kColumnsQk; ++column)
      copy<2 * cfg::kHeadDimQk>(destination + column * kQueryColumnBytes, rows, column, work.args.k);
    copy_commit();
    tell_under_way(has_begun);
    copy_wait();
    fence_proxy_async();
    Team::sync();
  }

 private:
  // The same of bf16 as fp16, and the rows' scales beside them. A warp has whole rows, and loads several before it looks
  // at one.
  template <class Work>
  TS_DEVICE static void copy_scaled_queries(const Work& work, u32 destination, bool& has_begun) {
    constexpr int kRowChunks = kColumnsQk * kChunks, kShare = ceil_div(kRowChunks, 32), kWarps = Team::kThreads / 32;
    constexpr int kTogether = kTileM / kWarps / kShare;
    const int warp = Team::thread() / 32;
#pragma unroll 1
    for (int first = warp; first < kTileM; first += kTogether * kWarps) {
      u32 x[kTogether][kShare][4];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) work.load_query(first + i * kWarps, x[i]);
      tell_under_way(has_begun);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int row = first + i * kWarps;
        work.store_scaled_query(row, x[i], [&](int chunk, const u32(&eight)[4]) {
          if (chunk < kRowChunks)
            store_chunk(destination + chunk / kChunks * kQueryColumnBytes + row * kColumnBytes +
                            (chunk % kChunks ^ (row & 7)) * 16,
                        eight);
        });
      }
    }
    fence_proxy_async();
    Team::sync();
  }

  TS_DEVICE static void tell_under_way(bool& has_begun) {
    if (!has_begun) named_barrier_arrive(kQueriesUnderWay, kThreads);
    has_begun = true;
  }
};

}  // namespace ts
