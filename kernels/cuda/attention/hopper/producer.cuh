// The producer thread: feeds queries, keys and values of one tile after another to the consumers, a ring of stages
// ahead of them. Beside pages it hands out tiles and copies their queries, and warps follow it that copy keys and values
// (page_copier.cuh).
//
// Values follow one block behind keys, across tile ends too, because that is the order in which the consumers need
// them: they multiply block n's values while they score block n - 1.
#pragma once

#include "page_copier.cuh"

namespace ts {

// Queries leave L2 first, keys and values last. That gains with wide heads, and nothing with others
// (docs/log/2026-11-cuda-attention.md).
constexpr bool kHinted = cfg::kHeadDimQk > 128;

struct Producer {
  const Shared& shared;
  const TsCudaTensorMaps& maps;
  RingPlace<cfg::kStages> keys;
  RingPlace<cfg::kFp8 ? kRawStages : cfg::kStages> values;
  RingPlace<cfg::kQStages> queries;

  TS_DEVICE const TsCudaTensorMap* query_map(int column) const {
    return is_rest(column, cfg::kHeadDimQk) ? &maps.q_rest : &maps.q;
  }
  TS_DEVICE const TsCudaTensorMap* key_map(int column) const {
    return is_rest(column, cfg::kHeadDimQk) ? &maps.k_rest : &maps.k;
  }
  TS_DEVICE const TsCudaTensorMap* value_map(int column) const {
    return is_rest(column, cfg::kHeadDimV) ? &maps.v_rest : &maps.v;
  }

  TS_DEVICE void load_queries(const Tile& t) {
    const int query = t.row / cfg::kPackGqa + t.offset_q;
    const int batch = cfg::kGroupMode ? 0 : t.batch;
    for (int w = 0; w < cfg::kWarpgroups; ++w) {
      const u32 full = shared.query_full(w, queries.index);
      mbarrier_wait(shared.query_empty(w, queries.index), queries.phase ^ 1);
      mbarrier_expect(full, copied_bytes(kWarpgroupRows, cfg::kHeadDimQk, kColumnsQk));
      for (int c = 0; c < kColumnsQk; ++c) {
        tma_load_5d(shared.query(w, queries.index) + c * kWarpgroupRows * kColumnBytes, query_map(c), full, c * kColumn,
                    0, query + w * (kWarpgroupRows / cfg::kPackGqa), t.head, batch);
      }
    }
    queries.advance();
  }

  static TS_DEVICE int head_of_keys(const TsCudaAttentionArgs& args, const Tile& t) {
    return cfg::kPackGqa > 1 ? t.head : t.head / static_cast<int>(args.heads_q / args.heads_kv);
  }

  // A column of a block's keys or values.
  static TS_DEVICE void load_rows(u32 to, const TsCudaTensorMap* map, u32 full, int column, int key, int head,
                                  int batch) {
    if constexpr (kHinted) {
      tma_load_4d(to, map, full, column, key, head, batch, l2_evict_last());
    } else {
      tma_load_4d(to, map, full, column, key, head, batch);
    }
  }

  TS_DEVICE void load_keys(int key, int head, int batch) {
    const u32 full = shared.key_full(keys.index);
    mbarrier_wait(shared.key_empty(keys.index), keys.phase ^ 1);
    mbarrier_expect(full, copied_bytes(cfg::kTileN, cfg::kHeadDimQk, kColumnsQk));
    for (int c = 0; c < kColumnsQk; ++c) {
      load_rows(shared.key(keys.index) + c * cfg::kTileN * kColumnBytes, key_map(c), full, c * kColumn, key, head,
                batch);
    }
    keys.advance();
  }

  TS_DEVICE void load_values(int key, int head, int batch) {
    const u32 full = cfg::kFp8 ? shared.raw_full(values.index) : shared.value_full(values.index);
    const u32 to = cfg::kFp8 ? shared.raw(values.index) : shared.value(values.index);
    mbarrier_wait(cfg::kFp8 ? shared.raw_empty(values.index) : shared.value_empty(values.index), values.phase ^ 1);
    mbarrier_expect(full, copied_bytes(cfg::kTileN, cfg::kHeadDimV, kColumnsV));
    for (int c = 0; c < kColumnsV; ++c) {
      load_rows(to + c * cfg::kTileN * kColumnBytes, value_map(c), full, c * kColumn, key, head, batch);
    }
    values.advance();
  }

  // The maps of the first and the last column.
  template <class MapOf>
  static TS_DEVICE void prefetch(int columns, const MapOf& map_of) {
    prefetch_tensor_map(map_of(0));
    if (map_of(columns - 1) != map_of(0)) prefetch_tensor_map(map_of(columns - 1));
  }
  TS_DEVICE void prefetch_maps(const TsCudaAttentionArgs& args) const {
    prefetch(kColumnsQk, [&](int column) { return query_map(column); });
    if (cfg::kPaged && !comes_in_boxes(args)) return;
    prefetch(kColumnsQk, [&](int column) { return key_map(column); });
    prefetch(kColumnsV, [&](int column) { return value_map(column); });
  }

  // Brings the first keys and values of the block's first tile into L2, before the launch before has ended: what that one
  // may still write of them, it writes there. Not of sequences whose lengths are in memory, nor where tiles share keys.
  TS_DEVICE void prefetch(const TsCudaAttentionArgs& args) const {
    constexpr int kBytes = 64 << 10;  // as many as blocks of decode fetch (docs/log/2026-11-cuda-decode.md)
    Tile t;
    if (cfg::kGroupMode || cfg::kPaged || args.row_tiles > 1 || !find_tile(args, blockIdx.x, t)) return;
    const int head = head_of_keys(args, t);
    const int end = imax(t.n_begin, t.n_end - ceil_div(kBytes, kKeysBytes + kLoadedBytes));
    for (int n = t.n_end - 1; n >= end; --n) {
      for (int c = 0; c < kColumnsQk; ++c) tma_prefetch_4d(key_map(c), c * kColumn, n * cfg::kTileN, head, t.batch);
      for (int c = 0; c < kColumnsV; ++c) tma_prefetch_4d(value_map(c), c * kColumn, n * cfg::kTileN, head, t.batch);
    }
  }

  // Of a warpgroup that follows the thread tile by tile (take_together).
  TS_DEVICE void start(const TsCudaAttentionArgs& args, Walk& walk) const {
    prefetch_maps(args);
    walk.start();
  }

  // A block whose keys are loaded and whose values are not.
  struct Block {
    int key = -1;
    int head = 0, batch = 0;
  } late;
  TS_DEVICE void load_late_values() {
    if (late.key >= 0) load_values(late.key, late.head, late.batch);
  }

  // Hands an item's tile to the consumers and loads it; `fresh` if it is the walk's, which then draws the item after it.
  TS_DEVICE void feed(const TsCudaAttentionArgs& args, TileRing& ring, const Tile& t, int item, bool fresh, Walk& walk) {
    ring.push(shared, t, item);
    const int head = head_of_keys(args, t);
    const int batch = cfg::kGroupMode ? 0 : t.batch;
    if constexpr (kQueryRegisters) load_queries(t);
    for (int n = t.n_end - 1; n >= t.n_begin; --n) {
      if (fresh && Walk::is_due(t, n)) walk.draw(args);
      const int key = n * cfg::kTileN + t.offset_k;
      load_keys(key, head, batch);
      load_late_values();
      if (!kQueryRegisters && n == t.n_end - 1) load_queries(t);
      late = {key, head, batch};
    }
  }
  // The same beside pages, whose copies others make. The tile is fed when its last block but one has a place, so that
  // what the next one is is known when its keys are to be copied.
  TS_DEVICE void feed_queries(const TsCudaAttentionArgs& args, TileRing& ring, const Tile& t, int item, bool fresh,
                              Walk& walk) {
    ring.push(shared, t, item);
    if constexpr (kQueryRegisters) load_queries(t);
#pragma unroll 1
    for (int n = t.n_end - 1; n >= t.n_begin; --n) {
      if (n > t.n_begin || n == t.n_end - 1) mbarrier_wait(shared.key_empty(keys.index), keys.phase ^ 1);
      keys.advance();
      if (!kQueryRegisters && n == t.n_end - 1) load_queries(t);
      if (fresh && Walk::is_due(t, n)) walk.draw(args);
    }
  }

  // With kTrusting the walk's end is not the work's: the consumers may ask for tiles again. So they get a pause, before
  // which they finish what they have, and the slots of the ring are looked through once more.
  TS_DEVICE void run(const TsCudaAttentionArgs& args) {
    prefetch_maps(args);
    TileRing ring;
    Walk walk;
    Tile t;
    walk.start();
    while (true) {
      // After the pause: slots of the ring that are left to look at, and 8 times the next one's place, counted from 1.
      const int look = kTrusting ? load_word(shared.look()) : 0;
      const bool looking = look > 0;
      if (looking && look % 8 == 0) break;
      int item = kTrusting ? ring.asked_again(shared, looking ? look / 8 - 1 : 0) : -1;
      const bool again = item >= 0, fresh = !again && !looking && walk.index < args.work_items;
      // Each slot is looked at once: a tile that is fed takes one that has been, and moves the ring's place on.
      if (looking) store_word(shared.look(), again ? look - 1 : look + 7);
      if (again) TileRing::be_careful(shared);
      if (fresh) item = walk.index;
      if (item >= 0) {
        if (find_tile(args, item, t)) {
          if constexpr (cfg::kPaged)
            feed_queries(args, ring, t, item, fresh, walk);
          else
            feed(args, ring, t, item, fresh, walk);
        } else {
          walk.draw(args);
        }
        if (fresh) walk.advance(args);
      } else if (!kTrusting) {
        break;
      } else if (!looking) {
        load_late_values();
        late.key = -1;
        t.row = 1;
        t.n_end = 0;
        ring.push(shared, t);
        store_word(shared.look(), 8 + kTileSlots);
      }
    }
    load_late_values();
    t.row = 0;
    t.n_end = 0;
    ring.push(shared, t);
    walk.finish(args);
  }
};

// The tile that a producer's warpgroup whose threads all work on every block takes next; its n_end is 0 when there are no
// more. One thread leads: the walk is its own, in `next` it works the tile out, and through the ring the others have it, too.
TS_DEVICE void take_together(const TsCudaAttentionArgs& args, const Shared& shared, bool leader, Walk& walk,
                             TileRing& pushed, TileRing& popped, Tile& next, Tile& t) {
  if (leader) {
    if (!walk.take(args, next)) next = {};
    pushed.push(shared, next);
  }
  __syncwarp();
  const u32 slot = popped.pop(shared, t);
  TileRing::release(shared, slot);
}

}  // namespace ts
