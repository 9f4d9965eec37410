// The producer thread: feeds queries, keys and values of one tile after another to the consumers, a ring of stages
// ahead of them.
//
// Values follow one block behind keys, across tile ends too, because that is the order in which the consumers need
// them: they multiply block n's values while they score block n - 1.
#pragma once

#include "scheduler.cuh"

namespace ts {

struct Producer {
  const Shared& shared;
  const TsCudaTensorMaps& maps;
  RingPlace<cfg::kStages> keys;
  RingPlace<cfg::kFp8 ? kRawStages : cfg::kStages> values;
  RingPlace<cfg::kQStages> queries;

  TS_DEVICE void load_queries(const Tile& t) {
    const int query = t.row / cfg::kPackGqa + t.offset_q;
    const int batch = cfg::kGroupMode ? 0 : t.batch;
    for (int w = 0; w < cfg::kWarpgroups; ++w) {
      const u32 full = shared.query_full(w, queries.index);
      mbarrier_wait(shared.query_empty(w, queries.index), queries.phase ^ 1);
      mbarrier_expect(full, kQueryBytes);
      for (int c = 0; c < kColumnsQk; ++c) {
        tma_load_5d(shared.query(w, queries.index) + c * kWarpgroupRows * kColumnBytes, &maps.q, full, c * kColumn, 0,
                    query + w * (kWarpgroupRows / cfg::kPackGqa), t.head, batch);
      }
    }
    queries.advance();
  }

  TS_DEVICE void load_keys(int key, int head, int batch) {
    const u32 full = shared.key_full(keys.index);
    mbarrier_wait(shared.key_empty(keys.index), keys.phase ^ 1);
    mbarrier_expect(full, kKeyBytes);
    for (int c = 0; c < kColumnsQk; ++c) {
      tma_load_4d(shared.key(keys.index) + c * cfg::kTileN * kColumnBytes, &maps.k, full, c * kColumn, key, head,
                  batch);
    }
    keys.advance();
  }

  TS_DEVICE void load_values(int key, int head, int batch) {
    const u32 full = cfg::kFp8 ? shared.raw_full(values.index) : shared.value_full(values.index);
    const u32 to = cfg::kFp8 ? shared.raw(values.index) : shared.value(values.index);
    mbarrier_wait(cfg::kFp8 ? shared.raw_empty(values.index) : shared.value_empty(values.index), values.phase ^ 1);
    mbarrier_expect(full, kLoadedBytes);
    for (int c = 0; c < kColumnsV; ++c) {
      tma_load_4d(to + c * cfg::kTileN * kColumnBytes, &maps.v, full, c * kColumn, key, head,
                  batch);
    }
    values.advance();
  }

  TS_DEVICE void prefetch_maps() const {
    prefetch_tensor_map(&maps.q);
    prefetch_tensor_map(&maps.k);
    prefetch_tensor_map(&maps.v);
  }

  TS_DEVICE void run(const TsCudaAttentionArgs& args) {
    prefetch_maps();
    TileRing ring;
    Walk walk;
    const int group = static_cast<int>(args.heads_q / args.heads_kv);
    int late_key = -1, late_head = 0, late_batch = 0;  // the block whose keys are loaded and whose values are not
    Tile t;
    for (walk.start(); walk.take(args, t); walk.advance()) {
      ring.push(shared, t);
      const int head = cfg::kPackGqa > 1 ? t.head : t.head / group;
      const int batch = cfg::kGroupMode ? 0 : t.batch;
      for (int n = t.n_end - 1; n >= t.n_begin; --n) {
        if (Walk::is_due(t, n)) walk.draw(args);
        const int key = n * cfg::kTileN + t.offset_k;
        load_keys(key, head, batch);
        if (late_key >= 0) load_values(late_key, late_head, late_batch);
        if (n == t.n_end - 1) load_queries(t);
        late_key = key;
        late_head = head;
        late_batch = batch;
      }
    }
    if (late_key >= 0) load_values(late_key, late_head, late_batch);
    Tile end = {};
    ring.push(shared, end);
    walk.finish(args);
  }
};

}  // namespace ts
