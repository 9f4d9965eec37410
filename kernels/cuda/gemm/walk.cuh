// Which tile a block works on: work items to tiles, in bands that keep the panels of a and b in the L2 cache.
#pragma once

#include "types.cuh"

namespace ts::gemm {

struct Tile {
  int row, column;   // first row and column; rows count from the start of the group's or batch entry's
  int row_offset;    // added to the row in a and d: the group's first row (contiguous groups)
  int row_limit;     // rows there are
  int batch;         // batch entry of b, and of a and d unless groups are contiguous
  int step, steps;   // range of k, in steps of the tile's depth; the steps of k2 follow those of k
  int split, index;  // which part of k, where k is split, and the tile's number
};

// Tile `index` of tiles_m x tiles_n in bands.
TS_DEVICE void place_in_bands(const TsCudaGemmArgs& args, int index, int tiles_m, int tiles_n, int& m, int& n) {
  const int across = args.band_columns ? tiles_n : tiles_m;
  const int along = args.band_columns ? tiles_m : tiles_n;
  const int band_tiles = args.band * along;
  const int band = index / band_tiles;
  const int first = band * args.band;
  const int width = imin(args.band, across - first);
  const int rest = index - band * band_tiles;
  const int at = rest / width;
  const int a = first + rest - at * width;
  m = args.band_columns ? at : a;
  n = args.band_columns ? a : at;
}

// Walks the work items of one block (of one cluster: its blocks are kClusterM x kClusterN neighbours). Items are
// visited in rising order.
template <int kTileM, int kTileN, int kTileK, int kClusterM, int kClusterN>
struct Walk {
  static_assert(!cfg::kSplitK || cfg::kGrouping == TS_GEMM_UNGROUPED, "parts of k of groups have no order here");
  const TsCudaGemmArgs& args;
  int all_steps, first_steps;  // of k and k2; of k
  int tiles_m, tiles_n;       // of one batch entry or group, in clusters
  int group = 0, before = 0;  // grouped: the group reached and the tiles before it

  TS_DEVICE explicit Walk(const TsCudaGemmArgs& a) : args(a) {
    all_steps = first_steps = ceil_div(args.k, kTileK);
    if constexpr (cfg::kMmPlusMm) all_steps += ceil_div(args.k2, kTileK);
    tiles_m = ceil_div(args.m, kTileM * kClusterM);
    tiles_n = ceil_div(args.n, kTileN * kClusterN);
  }

  // Whatever the ends are, nothing beyond row m is touched.
  TS_DEVICE int group_end(int g) const { return imax(0, imin(args.group_ends[g], args.m)); }
  TS_DEVICE int group_start(int g) const {
    return cfg::kGrouping == TS_GEMM_CONTIGUOUS && g > 0 ? group_end(g - 1) : 0;
  }
  TS_DEVICE int group_rows(int g) const { return imax(0, group_end(g) - group_start(g)); }

  // From an empty group to the last of the empty ones behind it, or near it: of many groups most have no rows where
  // rows are few. Ends rise, so that one of them tells of a run of groups, which gets longer while that succeeds.
  TS_DEVICE void pass_over_empty_groups() {
    if constexpr (cfg::kGrouping == TS_GEMM_CONTIGUOUS) {
      for (int run = 2; group + run < args.groups && group_end(group + run) <= group_end(group); run *= 2) group += run;
    }
  }

  // Fills in item `item`; false when there is none. `rank` is the block's number in its cluster.
  TS_DEVICE bool find(int item, int rank, Tile& t) {
    const int splits = cfg::kSplitK ? args.splits : 1;
    if constexpr (cfg::kSplitK) {
      // Neighbours have the same part of neighbouring tiles of an entry, and so share what they read. What is divided
      // by is what the rest divides by too: by another number, beside wgmma in flight, 256 x 176 spilled (ptxas 13.0).
      const int tiles = tiles_m * tiles_n, entry = item / tiles, batch = entry / splits;
      t.split = entry - batch * splits;
      t.index = item - (entry - batch) * tiles;
    } else {
      t.index = item;
      t.split = 0;
    }
    // In 32 bits: a division in 64 bits is a function call, which would make the compiler wait for the wgmma in flight.
    t.step = cfg::kSplitK ? all_steps * t.split / splits : 0;
    t.steps = cfg::kSplitK ? all_steps * (t.split + 1) / splits - t.step : all_steps;
    if constexpr (cfg::kClusterK > 1) {  // the blocks of a cluster share that part
      const int before = t.steps * rank / cfg::kClusterK;
      t.steps = t.steps * (rank + 1) / cfg::kClusterK - before;
      t.step += before;
    }
    return place(cfg::kClusterK > 1 ? 0 : rank, t);
  }

  // Where tile t.index lies; false when there is no such tile.
  TS_DEVICE bool place(int rank, Tile& t) {
    const int index = t.index;
    int m, n;
    if constexpr (cfg::kGrouping == TS_GEMM_UNGROUPED) {
      const int entry_tiles = tiles_m * tiles_n;
      t.batch = index / entry_tiles;
      if (t.batch >= args.batch) return false;
      place_in_bands(args, index - t.batch * entry_tiles, tiles_m, tiles_n, m, n);
      t.row_offset = 0;
      t.row_limit = args.m;
    } else {
      for (;; ++group) {
        if (group >= args.groups) return false;
        tiles_m = ceil_div(group_rows(group), kTileM * kClusterM);
        if (index < before + tiles_m * tiles_n) break;
        before += tiles_m * tiles_n;
        if (tiles_m == 0) pass_over_empty_groups();
      }
      place_in_bands(args, index - before, tiles_m, tiles_n, m, n);
      t.batch = group;
      t.row_offset = group_start(group);
      t.row_limit = group_rows(group);
    }
    t.row = (m * kClusterM + rank % kClusterM) * kTileM;
    t.column = (n * kClusterN + rank / kClusterM) * kTileN;
    return true;
  }
};

}  // namespace ts::gemm
