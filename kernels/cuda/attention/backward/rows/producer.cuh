// The producer thread: the resident operands of one item after another, and what streams past them, as far ahead as there
// is room.
#pragma once

#include "../../../common/launch.cuh"
#include "items.cuh"
#include "score_gradients.cuh"

namespace ts {

struct Producer {
  const Shared& shared;
  const TsCudaBackwardMaps& maps;
  const TsCudaAttentionBackwardArgs& args;
  Place2 first, second;
  RingPlace<1> resident;

  TS_DEVICE void load_rows(u32 to, const void* map, u32 barrier, int columns, int rows, int row, int head, int batch) {
    for (int c = 0; c < columns; ++c) {
      // A box of the maps has 64 rows.
      for (int r = 0; r < rows; r += kStep)
        tma_load_4d(to + (c * rows + r) * 128, map, barrier, 64 * c, row + r, head, batch);
    }
  }

  TS_DEVICE void load_resident(const Item& t, int batch) {
    const bool is_dq = t.gradient == Gradient::dq, has_second = t.gradient != Gradient::dv;
    const int row = t.row + (is_dq ? t.sequence.offset_q : t.sequence.offset_k), head = is_dq ? t.head : t.head_of_keys(args);
    mbarrier_wait(shared.resident_empty(), resident.phase ^ 1);
    resident.advance();
    if (t.gradient == Gradient::dk_dv) {
      mbarrier_expect(shared.resident_full(), kStreamedFirst + kStreamedSecond);
      load_rows(shared.resident_first(), &maps.k, shared.resident_full(), kFirstColumns, kStep, row, head, batch);
      load_rows(shared.paired_second(), &maps.v, shared.resident_full(), kSecondColumns, kStep, row, head, batch);
      return;
    }
    mbarrier_expect(shared.resident_full(), kResidentFirst + (has_second ? kResidentSecond : 0));
    load_rows(shared.resident_first(), is_dq ? &maps.q : &maps.k, shared.resident_full(), kFirstColumns, kRows, row,
              head, batch);
    if (has_second)
      load_rows(shared.resident_second(), is_dq ? &maps.dout : &maps.v, shared.resident_full(), kSecondColumns, kRows,
                row, head, batch);
  }

  // A step of the streamed operands; with queries their statistics.
  TS_DEVICE void load_step(const Item& t, int step, int head, int batch) {
    const bool keys = t.gradient == Gradient::dq;
    const int row = step * kStep + (keys ? t.sequence.offset_k : t.sequence.offset_q);
    const int statistics = keys ? 0 : kStatisticBytes;
    const u32 first_full = shared.first_full(first.index), second_full = shared.second_full(second.index);
    mbarrier_wait(shared.first_empty(first.index), first.parity() ^ 1);
    mbarrier_expect(first_full, kStreamedFirst + statistics);
    load_rows(shared.first(first.index), keys ? &maps.k : &maps.q, first_full, kFirstColumns, kStep, row, head, batch);
    if (!keys)
      bulk_load(shared.lse(first.index), lse_rows(args, t.sequence, t.batch, head) + step * kStep, kStatisticBytes,
                first_full);
    mbarrier_wait(shared.second_empty(second.index), second.parity() ^ 1);
    mbarrier_expect(second_full, kStreamedSecond + statistics);
    load_rows(shared.second(second.index), keys ? &maps.v : &maps.dout, second_full, kSecondColumns, kStep, row, head,
              batch);
    if (!keys)
      bulk_load(shared.delta(second.index), delta_rows(args, t.sequence, t.batch, head) + step * kStep, kStatisticBytes,
                second_full);
    first.advance(kStages);
    second.advance(second_stages(t.gradient));
  }

  // An item of dq by gradients of scores that items of keys have stored. The consumers know by the ring that they are there, too.
  TS_DEVICE void load_passed(const Item& t, int batch) {
    const int head = t.head / static_cast<int>(args.heads_q / args.heads_kv);
    const PassedTiles tiles(args, t);
    first.index = second.index = 0;
    for (int step = t.steps.begin; step < t.steps.end; ++step) {
      const u32 first_full = shared.first_full(first.index), second_full = shared.second_full(second.index);
      mbarrier_wait(shared.second_empty(second.index), second.parity() ^ 1);
      mbarrier_expect(second_full, tiles.bytes);
      bulk_load(shared.second(second.index), tiles.of_keys(step), tiles.bytes, second_full);
      mbarrier_wait(shared.first_empty(first.index), first.parity() ^ 1);
      mbarrier_expect(first_full, kStreamedFirst);
      load_rows(shared.first(first.index), &maps.k, first_full, kFirstColumns, kStep,
                step * kStep + t.sequence.offset_k, head, batch);
      first.advance(kStages);
      second.advance(second_stages(Gradient::dk_dv));
    }
  }

  TS_DEVICE void load_item(const Item& t) {
    if (t.steps.begin >= t.steps.end) return;
    const int batch = cfg::kGroupMode ? 0 : t.batch, group = static_cast<int>(args.heads_q / args.heads_kv);
    if (passes_gradients(args) && t.gradient == Gradient::dq) return load_passed(t, batch);
    load_resident(t, batch);
    first.index = second.index = 0;
    const bool is_dq = t.gradient == Gradient::dq;
    const int first_head = is_dq ? t.head / group : t.first_head(args), heads = is_dq ? 1 : Item::heads_of_part(args);
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < t.step_count(); ++i) load_step(t, t.step(i), first_head + h, batch);
  }

  TS_DEVICE void run() {
    prefetch_tensor_map(&maps.q);
    prefetch_tensor_map(&maps.k);
    prefetch_tensor_map(&maps.v);
    prefetch_tensor_map(&maps.dout);
    wait_for_previous_kernel();
    ItemRing ring;
    // Where blocks wait for one another's items the first one comes from the counter, too: a block that has an item has begun.
    const auto draw = [&] {
      return static_cast<int>((kPassesGradients ? 0u : gridDim.x) + atomicAdd(args.tile_counters, 1u));
    };
    for (int index = kPassesGradients ? draw() : static_cast<int>(blockIdx.x); index < args.work_items; index = draw()) {
      Item t;
      const bool exists = t.find(args, index);
      if (passes_gradients(args) && t.gradient == Gradient::dq) {
        wait_for_keys(args, t, exists);
        if (!exists) count_up(queries_done(args, t.section), kWarpgroups);
      }
      if (!exists) continue;
      ring.push(shared, t);
      load_item(t);
    }
    ring.end(shared);
    // The last block resets the counters.
    if (atomicAdd(args.tile_counters + 1, 1u) == gridDim.x - 1) args.tile_counters[0] = args.tile_counters[1] = 0;
  }
};

}  // namespace ts
