// The two warpgroups that multiply latent rows. Each scores one half of a step's keys, and sums up half of the values'
// columns over both: its own probabilities from registers, the other's through shared memory.
//
// A row has one base for both halves. The first warpgroup goes on from where the second left it and the other way round,
// so that softmax of one runs under products of the other.
#pragma once

#include "layout.cuh"

#include "cluster_join.cuh"
#include "columns.cuh"
#include "row_results.cuh"

namespace ts {

struct Consumer : PieceWork<Consumer, Consumers> {
  const int warpgroup;
  float s[kScores];
  u32 p[kScores / 2];
  float o[kOutputColumns / 2];
  RowState rows;
  KeyRing ring;
  bool has_begun = false;
  int whole_begin, whole_end;  // between them every row of the item sees every key

  TS_DEVICE Consumer(const TsCudaDecodeArgs& arguments, u32 memory, int which)
      : PieceWork<Consumer, Consumers>(arguments, memory), warpgroup(which) {}

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return threadIdx.x / 32 % 4 * 16; }
  TS_DEVICE int row(int r) const { return row_of_warp() + lane() / 4 + 8 * r; }
  TS_DEVICE bool is_first() const { return warpgroup == 0; }

  TS_DEVICE int first_key(int step, int half) const {
    return (piece.first_tile + step) * kTileKeys + half * cfg::kTileN;
  }

  // Copies by threads are for the tensor cores to see. The copy engine's are at once, and the fence, which waits for all
  // of a thread's accesses of memory, took a tenth of the time.
  TS_DEVICE void see_copies(int step, int half) const {
    if (!comes_by_engine(args, piece, first_key(step, half), cfg::kTileN)) fence_proxy_async();
  }

  // The second half's products of a step follow the first's: the tensor cores would share their time out, and the first
  // half's probabilities, which both warpgroups wait for, would come late.
  static constexpr bool kTakeTurns = cfg::kLateWait;

  template <int kHalf>
  TS_DEVICE void score(int step) {
    if constexpr (kTakeTurns && kHalf == 1) named_barrier_sync(kFirstHasScored, kConsumerThreads);
    const u64 a = descriptor_k_major(uniform(map().queries()));
    const u64 b = descriptor_k_major(uniform(map().keys(ring.index, kHalf)));
    pin(s);
#pragma unroll
    for (int n = 0; n < kColumnsQk; ++n) {
      const int column = column_of(kHalf, n);
      mbarrier_wait(map().full(ring.index, kHalf, column), ring.phase);
      see_copies(step, kHalf);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        Wgmma<cfg::kTileN, kElement>::ss(s, a + (column * kQueryColumnBytes / 16 + 2 * k),
                                         b + (column * kKeyColumnBytes / 16 + 2 * k),
                                         n != 0 || k != 0);
      wgmma_commit();
    }
    if constexpr (kTakeTurns && kHalf == 0) named_barrier_arrive(kFirstHasScored, kConsumerThreads);
    wgmma_wait<0>();
    pin(s);
    constexpr int kKept = kApart && kHalf == 1 ? 1 : 0;  // for probabilities
    release(kHalf, kColumnsV + kKept, kColumnsNoValue - kKept);
  }

  // Starts adding what the values of a half contribute to the warpgroup's columns.
  template <bool kOwn>
  TS_DEVICE void multiply_values(int half) {
    const u64 a = descriptor_k_major(uniform(probabilities(half)));
    const u64 b = descriptor_n_major(uniform(map().keys(ring.index, half) + first_column() * kKeyColumnBytes),
                                     kKeyColumnBytes);
    pin(o);
    if constexpr (kOwn) pin(p);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < cfg::kTileN / 16; ++k) {
      if constexpr (kOwn)
        Wgmma<kOutputColumns, kElement>::rs(o, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b + 128 * k, 1);
      else
        Wgmma<kOutputColumns, kElement>::template ss<true>(o, a + 2 * k, b + 128 * k, 1);
    }
    wgmma_commit();
  }

  TS_DEVICE int first_column() const { return warpgroup * kColumnsOfHalf; }

  // Waits for the products, and gives the columns back that they read.
  TS_DEVICE void finish_values(int half) {
    wgmma_wait<0>();
    pin(o);
    release(half, first_column(), kColumnsOfHalf);
    if (kApart && is_first() && half == 1) release(half, kColumnsV, 1);  // of which it has read the probabilities
  }

  TS_DEVICE u32 probabilities(int half) const {
    return kApart && half == 1 ? map().keys(ring.index, 1) + kColumnsV * kKeyColumnBytes : map().probabilities();
  }

  TS_DEVICE void release(int half, int first, int count) const {
    if (lane() < count) mbarrier_arrive(map().empty(ring.index, half, first + lane()));
  }

  // From the scores of a half to probabilities.
  TS_DEVICE void finish_scores(int step, int half, float (&factor)[2]) {
    const int first = first_key(step, half);
    finish_logits_of(s, first, first + cfg::kTileN > whole_end || first < whole_begin);
    update_softmax<false, true>(s, rows, factor, unit);
    pack_probabilities<kValuesBf16>(s, p);
  }

  // Leaves probabilities, the rows' bases and the factors that led to them for the other warpgroup.
  TS_DEVICE void tell(int half, const float (&factor)[2]) const {
    const int in_matrices = row_of_warp() + lane() % 16;
#pragma unroll
    for (int k = 0; k < cfg::kTileN / 16; ++k) {
      const int chunk = (2 * k + lane() / 16) ^ (in_matrices & 7);
      store_matrices(probabilities(half) + in_matrices * kColumnBytes + chunk * 16, p[4 * k], p[4 * k + 1],
                     p[4 * k + 2], p[4 * k + 3]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if ((lane() & 3) == 0)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(map().state(half, row(r))), "f"(rows.peak[r]),
                     "f"(factor[r])
                     : "memory");
    fence_proxy_async();
    named_barrier_arrive(half == 0 ? kFirstIsReady : kSecondIsReady, kConsumerThreads);
  }

  // Takes the bases over that the other warpgroup left, and brings the rows to them.
  TS_DEVICE void hear(int step, int half) {
    named_barrier_sync(half == 0 ? kFirstIsReady : kSecondIsReady, kConsumerThreads);
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(rows.peak[r]), "=f"(factor[r])
                   : "r"(map().state(half, row(r)))
                   : "memory");
      rows.sum[r] = __fmul_rn(rows.sum[r], factor[r]);
    }
    scale_outputs(o, factor);
    see_copies(step, half);  // which the other has waited for
  }

  TS_DEVICE void step_of_first(int step) {
    float factor[2];
    score<0>(step);
    finish_scores(step, 0, factor);
    tell(0, factor);
    scale_outputs(o, factor);
    multiply_values<true>(0);
    finish_values(0);
    hear(step, 1);
    multiply_values<false>(1);
    finish_values(1);
  }

  // With kLateWait it scores before it takes the first half's values, which then are summed up under its softmax: the
  // tensor cores have more to do at a time. Without, rows go back earlier, and more of them are on their way.
  TS_DEVICE void step_of_second(int step) {
    float factor[2];
    if constexpr (cfg::kLateWait) score<1>(step);
    hear(step, 0);
    multiply_values<false>(0);
    if constexpr (!cfg::kLateWait) {
      finish_values(0);
      score<1>(step);
    }
    finish_scores(step, 1, factor);
    if constexpr (kApart) tell(1, factor);
    if constexpr (cfg::kLateWait) finish_values(0);
    if constexpr (!kApart) tell(1, factor);  // into the place of the first half's, which have been read
    scale_outputs(o, factor);
    multiply_values<true>(1);
    finish_values(1);
  }

  TS_DEVICE void walk() {
    Columns<Consumers>::copy_queries(*this, map().queries(), has_begun);
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; ++i) o[i] = 0.0f;
    rows = {{-kInfinity, -kInfinity}, {0.0f, 0.0f}};
    whole_end = key_end(args, item.length, item.query(args, 0));
    whole_begin = key_begin(args, item.length, item.query(args, item.rows(args) - 1));
    const int steps = piece.end_tile - piece.first_tile;
    if (is_first()) {
#pragma unroll 1
      for (int step = 0; step < steps; ++step, ring.advance()) step_of_first(step);
    } else {
#pragma unroll 1
      for (int step = 0; step < steps; ++step, ring.advance()) step_of_second(step);
    }
    if (cfg::kPaged && has_lost_keys(args, item, piece)) rows.sum[0] = rows.sum[1] = lost_sum();
  }

  // The rows' bases and the sums of both warpgroups.
  TS_DEVICE void join_sums(State (&states)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = quad_sum(rows.sum[r]);
      if ((lane() & 3) == 0)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(map().sum(warpgroup, row(r))), "f"(sum) : "memory");
    }
    Consumers::sync();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sums[2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(sums[half]) : "r"(map().sum(half, row(r))) : "memory");
      states[r] = {base_logit(rows.peak[r]), sums[0] + sums[1]};
    }
  }

  TS_DEVICE void finish(int item_number) const {
    State states[2];
    join_sums(states);
    if (kClusters && args.cluster > 1)
      return ClusterJoin(*this, item_number).run(o, states, row(0), first_column() * kColumn);
    finish_rows(*this, item_number, o, states, row(0), first_column() * kColumn);
  }
};

}  // namespace ts
