// The producer thread: feeds keys and values of one work item after another, and the queries, do and statistics of its
// tiles, as far ahead as there is room.
#pragma once

#include "../../../common/launch.cuh"
#include "items.cuh"

namespace ts {

struct Producer {
  const Shared& shared;
  const TsCudaBackwardMaps& maps;
  const TsCudaAttentionBackwardArgs& args;
  RingPlace<cfg::kStages> stage;
  RingPlace<kResidents> resident;

  TS_DEVICE void load_rows(u32 to, const void* map, u32 barrier, int columns, int rows, int row, int head, int batch) {
    for (int c = 0; c < columns; ++c) tma_load_4d(to + c * rows * 128, map, barrier, 64 * c, row, head, batch);
  }

  // Rows of a tile's queries and of do; then their statistics, which the launch before has made.
  TS_DEVICE void load_queries(const Item& t, int tile, int head) {
    mbarrier_wait(shared.query_empty(stage.index), stage.phase ^ 1);
    mbarrier_expect(shared.query_full(stage.index), kQueryBytes + kRowBytes);
    load_rows(shared.queries(stage.index), &maps.q, shared.query_full(stage.index), kColumnsQk, kTileM,
              tile * kTileM + t.sequence.offset_q, head, cfg::kGroupMode ? 0 : t.batch);
  }
  TS_DEVICE void load_dout(const Item& t, int tile, int head) {
    mbarrier_wait(shared.dout_empty(stage.index), stage.phase ^ 1);
    mbarrier_expect(shared.dout_full(stage.index), kDoutBytes + kRowBytes);
    load_rows(shared.dout(stage.index), &maps.dout, shared.dout_full(stage.index), kColumnsV, kTileM,
              tile * kTileM + t.sequence.offset_q, head, cfg::kGroupMode ? 0 : t.batch);
  }
  TS_DEVICE void load_statistics(const Item& t, int tile, int head) {
    bulk_load(shared.lse(stage.index), lse_rows(args, t.sequence, t.batch, head) + tile * kTileM, kRowBytes,
              shared.query_full(stage.index));
    bulk_load(shared.delta(stage.index), delta_rows(args, t.sequence, t.batch, head) + tile * kTileM, kRowBytes,
              shared.dout_full(stage.index));
  }

  TS_DEVICE void load_item(const Item& t, int group) {
    const int batch = cfg::kGroupMode ? 0 : t.batch;
    const int heads = heads_at_once(group), keys_head = t.head_of_keys(args);
    bool first = true;
    for (int first_head = t.head * group; first_head < (t.head + 1) * group; first_head += heads) {
      const int direction = t.direction(heads);
      Step step = t.first_step(heads);
      for (int left = t.tile_count() * heads; left > 0; --left, step.advance(heads, direction)) {
        const u32 keys_full = shared.keys_full(resident.index), values_full = shared.values_full(resident.index);
        if (first) {
          mbarrier_wait(shared.keys_empty(resident.index), resident.phase ^ 1);
          mbarrier_expect(keys_full, kKeyBytes);
          load_rows(shared.keys(resident.index), &maps.k, keys_full, kColumnsQk, kKeys, t.key + t.sequence.offset_k,
                    keys_head, batch);
        }
        load_queries(t, step.tile, first_head + step.head);
        if (first) {
          mbarrier_expect(values_full, kValueBytes);
          load_rows(shared.values(resident.index), &maps.v, values_full, kColumnsV, kKeys, t.key + t.sequence.offset_k,
                    keys_head, batch);
          resident.advance();
        }
        load_dout(t, step.tile, first_head + step.head);
        // What the launch before makes is read from here on; all else was there when that one let this one begin.
        if (first) wait_for_previous_kernel();
        first = false;
        load_statistics(t, step.tile, first_head + step.head);
        stage.advance();
      }
    }
  }

  TS_DEVICE void run() {
    prefetch_tensor_map(&maps.q);
    prefetch_tensor_map(&maps.k);
    prefetch_tensor_map(&maps.v);
    prefetch_tensor_map(&maps.dout);
    ItemRing ring;
    Walk walk;
    const int group = Item::heads_of_part(args);
    // An item is drawn when the one before has been loaded, no earlier: it would wait, and others for it.
    for (walk.start(args); walk.index < args.work_items; walk.draw(args)) {
      Item t;
      if (!t.find(args, walk.index)) continue;
      if (t.tile_count() == 0) wait_for_previous_kernel();  // its gradients are stored at once
      ring.push(shared, t, walk.index);
      load_item(t, group);
    }
    ring.end(shared);
    wait_for_previous_kernel();  // at the latest: that this launch is done says that the one before is
    walk.finish(args);
  }
};

}  // namespace ts
