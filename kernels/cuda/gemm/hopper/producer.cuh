// The producer thread: copies the tiles of a and b, one step of k after another, then those of a2 and b2, a ring of
// stages ahead of the consumers.
//
// In a cluster each block copies its share of what the blocks need in common and multicasts it.
#pragma once

#include "layout.cuh"

namespace ts::gemm {

// What the ring holds of one operand of tiles that have one step of k: where the last of them began. When all stages are
// of one panel, a stage holds already what it is to hold next: of 401408x144x24 b is copied once, not 3136 times. Copies
// of more steps are as fast as multiplications, and keeping them made k of 512 2 % slower (H200).
template <bool kKeeps>
struct KeptPanel {
  int first = -1, batch = -1, tiles = 0;

  // Whether the tile's stage has its panel; counts the tile.
  TS_DEVICE bool holds(int tile_first, int tile_batch) {
    if (!kKeeps) return false;
    if (first != tile_first || batch != tile_batch) tiles = 0;
    first = tile_first;
    batch = tile_batch;
    return tiles++ >= cfg::kStages;
  }
};

struct Producer {
  const Shared& shared;
  const TsCudaGemmMaps& maps;
  u32 rank;
  RingPlace place;

  static TS_DEVICE void load(u32 destination, const void* map, u32 barrier, int c0, int c1, int c2, u32 mask,
                             bool share) {
    if (share)
      load_box_multicast(destination, map, barrier, c0, c1, c2, mask);
    else
      load_box(destination, map, barrier, c0, c1, c2);
  }

  // Blocks of the cluster with the same rows, with the same columns.
  static TS_DEVICE u32 blocks_of_row(int at_m) {
    u32 mask = 0;
    for (int i = 0; i < cfg::kClusterN; ++i) mask |= 1u << (at_m + cfg::kClusterM * i);
    return mask;
  }
  static TS_DEVICE u32 blocks_of_column(int at_n) {
    u32 mask = 0;
    for (int i = 0; i < cfg::kClusterM; ++i) mask |= 1u << (i + cfg::kClusterM * at_n);
    return mask;
  }

  // Of an operand: of a whole box, and of the one where the operand ends.
  struct Maps {
    const void *whole, *edge;
  };

  // One operand of a stage, of which `rows` are there. kParts blocks of the cluster share it; this block copies share
  // number `part`.
  template <bool kMnMajor, int kTile, int kParts>
  static TS_DEVICE void load_operand(u32 destination, const Maps& of, u32 barrier, int first, int rows, int k,
                                     int batch, int part, u32 mask) {
    if constexpr (kMnMajor) {
      constexpr int kColumns = ceil_div(kTile, kTileK) / kParts;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int before = (part * kColumns + i) * kTileK;
        if (rows <= before) return;
        load(destination + before * 128, rows < before + kTileK ? of.edge : of.whole, barrier, first + before, k, batch,
             mask, kParts > 1);
      }
    } else {
      constexpr int kRows = kTile / kParts;
      const int before = part * kRows;
      if (rows <= before) return;
      load(destination + before * 128, rows < before + kRows ? of.edge : of.whole, barrier, k, first + before, batch,
           mask, kParts > 1);
    }
  }

  // Where a or b ends within a tile, only the rows that exist are copied, by maps of that size. The rest of the stage
  // is multiplied into rows and columns that are not stored. The copy engine could fill it with zeros, but is slow at
  // that when many blocks ask for it: 385x4096x4096 took 34.5 us, 512x4096x4096 24.0. What lies along m or n comes in
  // whole 16 bytes.
  template <bool kCut, bool kMnMajor, int kRows>
  static TS_DEVICE int rows_there(const TsCudaGemmArgs& args, int first, int limit) {
    constexpr int kUnit = kMnMajor ? 16 / kElementBytes : 1;
    return kCut && args.edges ? imin(ceil_div(imax(limit - first, 0), kUnit) * kUnit, kRows) : kRows;
  }

  // The rows of a that the tile's group has. The rest of the stage is multiplied into rows that are not stored.
  static TS_DEVICE int copies_of_rows(const Tile& t) {
    return kCopiesRows ? ceil_div(imin(t.row_limit - t.row, cfg::kTileM), cfg::kCopyRows) : 1;
  }
  static TS_DEVICE void load_rows(u32 destination, const void* map, u32 barrier, const Tile& t, int k, int batch) {
#pragma unroll 1
    for (int i = 0; i < copies_of_rows(t); ++i)
      load_box(destination + i * cfg::kCopyRows * 128, map, barrier, k, t.row_offset + t.row + i * cfg::kCopyRows,
               batch);
  }

  TS_DEVICE void prefetch_maps(const TsCudaGemmArgs& args) const {
    prefetch_tensor_map(&maps.a);
    prefetch_tensor_map(&maps.b);
    if constexpr (cfg::kMmPlusMm) {
      prefetch_tensor_map(&maps.a2);
      prefetch_tensor_map(&maps.b2);
    }
    if (copied_stages(args) > 0) prefetch_tensor_map(&maps.c);
  }

  TS_DEVICE void run(const TsCudaGemmArgs& args) {
    const int at_m = rank % cfg::kClusterM, at_n = rank / cfg::kClusterM % cfg::kClusterN;
    const u32 mask_a = blocks_of_row(at_m), mask_b = blocks_of_column(at_n);
    TileWalk walk(args);
    Tile t;
    KeptPanel<kKeepsA> kept_a;
    KeptPanel<kKeepsB> kept_b;
    for (int item = first_item(rank); walk.find(item, rank, t); item += gridDim.x / kClusterBlocks) {
      const int batch_a = cfg::kGrouping == TS_GEMM_CONTIGUOUS ? 0 : t.batch;
      const int rows_a = rows_there<kCutsA, kMnMajorA, kRowsA>(args, t.row, args.m);
      const int rows_b = rows_there<kCutsB, kMnMajorB, kRowsB>(args, t.column, args.n);
      const u32 bytes_a = kCopiesRows ? copies_of_rows(t) * cfg::kCopyRows * 128 : rows_a * (kBytesA / kRowsA);
      const u32 bytes_b = rows_b * (kBytesB / kRowsB);
      const auto copy_step = [&](int s, bool has_a, bool has_b) {
        const u32 full = shared.arrived(place.index);
        const bool second = cfg::kMmPlusMm && t.step + s >= walk.first_steps;
        const int k = (t.step + s - (second ? walk.first_steps : 0)) * kTileK;
        mbarrier_wait(shared.empty(place.index), place.phase ^ 1);
        mbarrier_expect(full, (has_a ? 0 : bytes_a) + (has_b ? 0 : bytes_b));
        const Maps maps_a = second ? Maps{&maps.a2, &maps.edge_a2} : Maps{&maps.a, &maps.edge_a};
        if constexpr (kWeights) {
          // The map of integers is one of bytes.
          if (rows_a > 0) {
#pragma unroll
            for (int box = 0; box < cfg::kTmaBoxes; ++box)
              load_box(shared.tile_a(place.index) + box * cfg::kTileM * 128,
                       rows_a < cfg::kTileM ? maps_a.edge : maps_a.whole, full, k + 64 * box, t.row_offset + t.row,
                       batch_a);
          }
          load_box(shared.tile_b(place.index), &maps.b, full, k / kTileK * kRowBytesB, t.column, t.batch);
        } else {
          const auto load_a = [&] {
            if (has_a) return;
            if constexpr (kCopiesRows)
              load_rows(shared.tile_a(place.index), &maps.a, full, t, k, batch_a);
            else
              load_operand<kMnMajorA, cfg::kTileM, cfg::kClusterN>(shared.tile_a(place.index), maps_a, full,
                                                                   t.row_offset + t.row, rows_a, k, batch_a, at_n,
                                                                   mask_a);
          };
          if (!args.b_first) load_a();
          if (!has_b)
            load_operand<kMnMajorB, cfg::kTileN, cfg::kClusterM>(
                shared.tile_b(place.index), second ? Maps{&maps.b2, &maps.edge_b2} : Maps{&maps.b, &maps.edge_b}, full,
                t.column, rows_b, k, t.batch, at_m, mask_b);
          if (args.b_first) load_a();
        }
        place.advance();
      };
      if (kKeepsStages && t.steps == 1) {
        const bool has_a = kept_a.holds(t.row, t.batch), has_b = kept_b.holds(t.column, t.batch);
        copy_step(0, has_a, has_b);
      } else {
        for (int s = 0; s < t.steps; ++s) copy_step(s, false, false);
      }
      load_tensor(args, own_part(t, rank), batch_a);
    }
  }

  // A block stays until its neighbours have freed its stages for the last time, and have what it copied into them. Its
  // consumers have waited for what others copied into it, and for what those that share a tile by k send.
  TS_DEVICE void wait_until_freed() {
    for (int s = 0; s < cfg::kStages; ++s, place.advance()) mbarrier_wait(shared.empty(place.index), place.phase ^ 1);
  }

  // The tensor of the epilogue that goes with a tile.
  TS_DEVICE void load_tensor(const TsCudaGemmArgs& args, const Tile& t, int batch) {
    const int stages = copied_stages(args);
    for (int s = 0; s < stages; ++s) {
      const int first = s * kCopiedTmaBoxes, boxes = imin(kCopiedTmaBoxes, kSlabs - first);
      const u32 full = shared.arrived(place.index);
      mbarrier_wait(shared.empty(place.index), place.phase ^ 1);
      mbarrier_expect(full, boxes * kCopiedTmaBoxBytes);
      for (int i = 0; i < boxes; ++i) {
        load_box(shared.tile_a(place.index) + i * kCopiedTmaBoxBytes, &maps.c, full,
                 t.column + (first + i) * kSlabColumns, t.row_offset + t.row, batch);
      }
      place.advance();
    }
  }
};

}  // namespace ts::gemm
