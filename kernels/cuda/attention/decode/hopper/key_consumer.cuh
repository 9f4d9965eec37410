// The warpgroup that multiplies keys and values: 64 rows, a step of keys at a time. Scores of the next step are computed
// behind the values of this one, so that the tensor cores have work while copies come.
#pragma once

#include "key_layout.cuh"

#include "columns.cuh"
#include "lost_keys.cuh"
#include "row_results.cuh"

namespace ts {

struct Consumer : PieceWork<Consumer, Consumers> {
  float s[kScores];
  u32 p[kScores / 2];
  float o[kOutputColumns / 2];
  RowState rows;
  KeyRing keys, values;
  LostKeys lost_keys;  // kPaged
  bool has_begun = false;
  float query_scales[2];  // kScaledQueries: of the thread's rows

  using PieceWork<Consumer, Consumers>::PieceWork;

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return threadIdx.x / 32 * 16; }

  // Copies by threads are for the tensor cores to see; who widens has seen to it.
  TS_DEVICE static void see_copies() {
    if constexpr (!kNarrow) fence_proxy_async();
  }

  TS_DEVICE void start_scores() {
    mbarrier_wait(map().key_full(keys.index), keys.phase);
    see_copies();
    const u64 a = descriptor_k_major(uniform(map().queries()));
    const u64 b = descriptor_k_major(uniform(map().keys(keys.index)));
    pin(s);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kStepsQk; ++k) {
      // A step of depth is 32 bytes; a column holds four. Offsets in units of 16 bytes.
      const int column = k / 4, step = k % 4 * 2;
      Wgmma<cfg::kTileN, kElement>::ss(s, a + (column * kQueryColumnBytes / 16 + step),
                                       b + (column * kKeyColumnBytes / 16 + step), k != 0);
    }
    wgmma_commit();
  }

  TS_DEVICE void start_values() {
    mbarrier_wait(map().value_full(values.index), values.phase);
    see_copies();
    const u64 b = descriptor_n_major(uniform(map().values(values.index)), kKeyColumnBytes);
    pin(o);
    pin(p);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < cfg::kTileN / 16; ++k)
      Wgmma<kOutputColumns, kElement>::rs(o, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b + 128 * k, 1);
    wgmma_commit();
  }

  // Gives a place of the ring back.
  TS_DEVICE void release(u32 empty, KeyRing& ring) const {
    if (lane() == 0) mbarrier_arrive(empty);
    ring.advance();
  }

  TS_DEVICE void finish_scores(int first, bool cut) {
    pin(s);
    release(map().key_empty(keys.index), keys);
    if constexpr (kScaledQueries) scale_rows(s, query_scales);
    finish_logits_of(s, first, cut);
    float factor[2];
    update_softmax<false, true>(s, rows, factor, unit);
    pack_probabilities<kValuesBf16>(s, p);
    scale_outputs(o, factor);
  }

  // Waits for the products of values, of which kYounger groups are younger.
  template <int kYounger>
  TS_DEVICE void finish_values() {
    wgmma_wait<kYounger>();
    pin(o);
    release(map().value_empty(values.index), values);
  }

  TS_DEVICE void walk() {
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; ++i) o[i] = 0.0f;
    rows = {{-kInfinity, -kInfinity}, {0.0f, 0.0f}};
    // Between them every row of the item sees every key.
    const int whole_end = key_end(args, item.length, item.query(args, 0));
    const int whole_begin = key_begin(args, item.length, item.query(args, item.rows(args) - 1));
    Columns<Consumers>::copy_queries(*this, map().queries(), has_begun);
    if constexpr (kScaledQueries) load_row_scales(query_scales);
    const int steps = piece.end_tile - piece.first_tile;
    // Scores of the step are under way.
    const auto begin_step = [&](int step) {
      const int first = (piece.first_tile + step) * kTileKeys;
      wgmma_wait<0>();
      finish_scores(first, first + kTileKeys > whole_end || first < whole_begin);
      start_values();
    };
    if (steps > 0) {
      start_scores();
#pragma unroll 1
      for (int step = 0; step + 1 < steps; ++step) {
        begin_step(step);
        start_scores();
        finish_values<1>();
      }
      begin_step(steps - 1);
      finish_values<0>();
    }
    if (cfg::kPaged && lost_keys.hear(shared)) rows.sum[0] = rows.sum[1] = lost_sum();
  }

  TS_DEVICE void finish(int item_number) const {
    State states[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) states[r] = {base_logit(rows.peak[r]), quad_sum(rows.sum[r])};
    finish_rows(*this, item_number, o, states, row_of_warp() + lane() / 4, 0);
  }
};

}  // namespace ts
