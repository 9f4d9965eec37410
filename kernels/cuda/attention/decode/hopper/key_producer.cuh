// The copies of keys and values into the ring: by the copy engine where a whole step is seen and lies in tensors, else
// row by row.
#pragma once

#include "key_layout.cuh"

#include "copier.cuh"
#include "lost_keys.cuh"

namespace ts {

struct KeyProducer : Copier<KeyProducer> {
  const TsCudaKeyMaps& maps;
  KeyRing ring;
  LostKeys lost_keys;  // kPaged

  TS_DEVICE KeyProducer(const TsCudaKeyMaps& of_keys, const TsCudaDecodeArgs& arguments, u32 memory)
      : Copier<KeyProducer>(arguments, memory), maps(of_keys) {}

  TS_DEVICE int first_key(int step) const { return (piece.first_tile + step) * kTileKeys; }

  // The rows of a step, one column behind the other.
  template <int kDim>
  TS_DEVICE void copy_step(u32 destination, const TsCudaTensorMap& map, const KeyRows& from, int step, u32 empty,
                           u32 full) const {
    constexpr int kColumns = ceil_div(kDim, kColumn);
    const int key = first_key(step);
    if (comes_by_engine(args, piece, key, cfg::kTileN)) {
      const Box box = box_of_lane(key);
      mbarrier_wait(empty, ring.phase ^ 1);
      const int warp = Producers::thread() / 32;
      if (lane() == 0) {
        mbarrier_arrive(full, warp == 0 ? 31 : 32);
        if (warp == 0) mbarrier_expect(full, kColumns * kKeyColumnBytes);
      }
      __syncwarp();
#pragma unroll 1
      for (int column = warp; column < kColumns; column += kProducerThreads / 32)
        copy_box(destination + column * kKeyColumnBytes, map, full, column, box);
      return;
    }
    const char* rows[cfg::kTileN / kRowsAtOnce];
    find_rows(from, key, rows);
    mbarrier_wait(empty, ring.phase ^ 1);
#pragma unroll
    for (int column = 0; column < kColumns; ++column)
      copy<2 * kDim>(destination + column * kKeyColumnBytes, rows, column, args.k);
    arrive_after_copies(full);
  }

  // As PieceWork's, by the copy engine.
  TS_DEVICE void prefetch() {
    if (args.map_rows == 0 || Producers::thread() != 0) return;
    prefetch_tensor_map(&maps.k);
    prefetch_tensor_map(&maps.v);
    if constexpr (kUneven) return;
    take_piece_of_block();
    const int steps = imin(args.prefetch_tiles, piece.end_tile - piece.first_tile);
    for (int step = 0; step < steps; ++step) {
      prefetch_step<cfg::kHeadDimQk>(maps.k, step);
      prefetch_step<cfg::kHeadDimV>(maps.v, step);
    }
  }
  template <int kDim>
  TS_DEVICE void prefetch_step(const TsCudaTensorMap& map, int step) const {
    for (int column = 0; column < ceil_div(kDim, kColumn); ++column)
      tma_prefetch_4d(&map, column * kColumn, first_key(step), item.head_kv, item.batch);
  }

  TS_DEVICE void walk() {
    const KeyRows keys(args, item, args.k, args.k_strides), values(args, item, args.v, args.v_strides);
    const int steps = piece.end_tile - piece.first_tile;
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
    wait_for_queries();
#pragma unroll 1
    for (int step = 0; step < steps; ++step, ring.advance()) {
      if constexpr (cfg::kPaged) {
        pages.advance(args);
        pages.look_up(args, item, piece, first_key(step + 1));
      }
      if (!kUneven && step == imax(0, steps - args.end_tiles)) let_next_kernel_start();
      copy_step<cfg::kHeadDimQk>(map().keys(ring.index), maps.k, keys, step, map().key_empty(ring.index),
                                 map().key_full(ring.index));
      copy_step<cfg::kHeadDimV>(map().values(ring.index), maps.v, values, step, map().value_empty(ring.index),
                                map().value_full(ring.index));
    }
    if (cfg::kPaged && Producers::thread() < 32) lost_keys.tell(shared, pages.lost);
  }
};

}  // namespace ts
