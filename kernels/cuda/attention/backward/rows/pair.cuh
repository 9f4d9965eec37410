// An item of dk and dv. Both warpgroups have the same 64 keys, so that each keeps one gradient in registers: one computes
// scores, probabilities and dv, the other the products of do and v, their gradients and dk; four products instead of the five
// of an item for each. Probabilities pass from one to the other through shared memory, thread to thread. While one has
// exponentials to compute the other multiplies.
//
// They pass in 16 bits each (probabilities.cuh), for shared memory binds more than the products do.
#pragma once

#include "../warpgroup.cuh"
#include "items.cuh"
#include "probabilities.cuh"
#include "score_gradients.cuh"

namespace ts {

// Steps of 16 columns whose operand a warpgroup holds in registers; there are none for more.
constexpr int kHeldSteps = kStepsQk < 4 ? kStepsQk : kStepsV < 4 ? kStepsV : 4;

// A warpgroup's 64 rows of dk or dv from `row` on, or the item's part of them.
template <Gradient kGradient, int kWidth>
TS_DEVICE void store_of_keys(const TsCudaAttentionBackwardArgs& args, const Item& t, int row, const float (&sums)[kWidth / 2],
                             float scale) {
  constexpr bool kIsDk = kGradient == Gradient::dk;
  const int head = t.head_of_keys(args);
  if (args.key_parts != nullptr) {
    const int part = t.head - head * Item::parts(args);
    store_part(key_parts_of(args, t.batch, head, row) + part * part_stride(args) + (kIsDk ? 0 : kSlicesQk * kPartSlice), row,
               sums, scale);
    return;
  }
  const TsAttentionGradients& g = args.grad;
  store_rows<kWidth>(sums, kIsDk ? g.dk : g.dv, kIsDk ? g.dk_strides : g.dv_strides, t.batch, head, row,
                     t.sequence.length_k, t.sequence.offset_k, scale, kIsDk ? cfg::kHeadDimQk : cfg::kHeadDimV);
}

struct Pair {
  struct RaisingColumns {
    OfColumns lse;
    TS_DEVICE float2 operator()(int j) const {
      const float2 base = lse(j);
      return {base.x - kProbabilityRaise, base.y - kProbabilityRaise};
    }
  };

  const Shared& shared;
  const TsCudaAttentionBackwardArgs& args;
  const int warpgroup;
  Place2 &first, &second;
  RingPlace<1>& passed;  // of probabilities
  HeldRows<kHeldSteps> held;  // of the warpgroup's operand of its products of 64 by 64

  static constexpr int kPairs = kStep / 2;  // registers of a thread
  using StepPairs = Pairs<true, kPairs>;
  using Floats = float[kPairs];
  using Weights = u32[kPairs / 2];

  TS_DEVICE u32 probabilities_of_thread() const { return shared.probabilities() + threadIdx.x % 128 * 16; }
  TS_DEVICE static bool is_masked(const Item& t, int step) {
    return !t.window.is_whole(step * kStep, kStep, t.row, kStep);
  }
  TS_DEVICE void zero_beyond(const Item& t, int step, u32 address, int columns) const {
    if constexpr (cfg::kGroupMode) {
      const int rest = t.sequence.length_q - step * kStep;
      if (rest >= kStep) return;
      zero_rows<128>(address, columns, kStep, rest);
      end_zeros<128>(2 + warpgroup);
    }
  }

  TS_DEVICE void begin_scores(Floats& s) const {
    mbarrier_wait(shared.first_full(first.index), first.parity());
    begin_product<kStepsQk, kStep>(s, held, shared.resident_first(), shared.first(first.index));
  }
  // Waits for them, and passes the probabilities on.
  TS_DEVICE void end_scores(Call& call, const Item& t, int step, Floats& s, Weights& p) {
    PairState<kPairs> state;
    const Place place = first_pair(t.row, step * kStep);
    if constexpr (cfg::kDropout) StepPairs::draw(call, place, shared.words(threadIdx.x / 32 - 4), state);
    wgmma_wait<0>();
    pin(s);
    StepPairs::probabilities(call, t.window, place, is_masked(t, step),
                             RaisingColumns{of_columns(shared.lse(first.index))}, s, state);
    mbarrier_wait(shared.probabilities_empty(), passed.phase ^ 1);
    const u32 to = probabilities_of_thread();
#pragma unroll
    for (int i = 0; i < kPairs; i += 8)
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * 256), "r"(pack_probabilities(s[i], s[i + 1])),
                   "r"(pack_probabilities(s[i + 2], s[i + 3])), "r"(pack_probabilities(s[i + 4], s[i + 5])),
                   "r"(pack_probabilities(s[i + 6], s[i + 7]))
                   : "memory");
    arrive_by_warps(shared.probabilities_full());
    passed.advance();
    arrive_by_warps(shared.first_empty(first.index));
    first.advance(kStages);
    StepPairs::pack_kept(s, state, p);
  }
  // Adds a step to dv and scores the next one meanwhile.
  template <bool kLast>
  TS_DEVICE void add_dv(Call& call, const Item& t, int i, Weights& p, float (&dv)[kWidthV / 2]) {
    const u32 rows = shared.second(second.index);
    const u64 columns = columns_of<kStep>(rows);
    mbarrier_wait(shared.second_full(second.index), second.parity());
    zero_beyond(t, t.step(i), rows, kSecondColumns);
    begin_sums<kWidthV, kStep>(dv, p, columns);
    Floats s;
    if constexpr (!kLast) begin_scores(s);
    wgmma_wait<kLast ? 0 : 1>();
    pin(dv);
    arrive_by_warps(shared.second_empty(second.index));
    second.advance(second_stages(Gradient::dk_dv));
    if constexpr (!kLast) end_scores(call, t, t.step(i + 1), s, p);
  }
  TS_DEVICE void walk_dv(const Item& t) {
    const int count = t.step_count();
    if (count > 0) held.load<kStep>(shared.resident_first());
    Call call(args);
    float dv[kWidthV / 2];
#pragma unroll
    for (int i = 0; i < kWidthV / 2; ++i) dv[i] = 0.0f;
    for (int h = 0; h < Item::heads_of_part(args) && count > 0; ++h) {
      call.enter(t.sequence, t.batch, t.first_head(args) + h);
      Floats s;
      Weights p;
      begin_scores(s);
      end_scores(call, t, t.step(0), s, p);
      for (int i = 0; i < count - 1; ++i) add_dv<false>(call, t, i, p, dv);
      add_dv<true>(call, t, count - 1, p, dv);
    }
    fence_proxy_async();  // of probabilities, before an item's copy to the same place
    store_of_keys<Gradient::dv, kWidthV>(args, t, t.row, dv, call.keep_scale * kProbabilityLower);
  }

  TS_DEVICE void begin_gradients(Floats& dp) const {
    mbarrier_wait(shared.second_full(second.index), second.parity());
    begin_product<kStepsV, kStep>(dp, held, shared.paired_second(), shared.second(second.index));
  }
  // Waits for the products of do and v, and for the probabilities.
  TS_DEVICE void end_gradients(Call& call, const Item& t, int step, Floats& dp, Weights& ds) {
    PairState<kPairs> state;
    const Place place = first_pair(t.row, step * kStep);
    if constexpr (cfg::kDropout) StepPairs::draw(call, place, shared.words(threadIdx.x / 32 - 4), state);
    u32 halves[kPairs / 2];
    mbarrier_wait(shared.probabilities_full(), passed.phase);
    passed.advance();
    const u32 from = probabilities_of_thread();
#pragma unroll
    for (int i = 0; i < kPairs / 2; i += 4)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(halves[i]), "=r"(halves[i + 1]), "=r"(halves[i + 2]), "=r"(halves[i + 3])
                   : "r"(from + i * 512)
                   : "memory");
    wgmma_wait<0>();
    pin(dp);
    Floats p;
#pragma unroll
    for (int i = 0; i < kPairs; i += 2) {
      const float2 both = unpack_probabilities(halves[i / 2]);
      p[i] = both.x;
      p[i + 1] = both.y;
    }
    StepPairs::gradients(call, t.window, place, is_masked(t, step), of_columns(shared.delta(second.index)), p, state, dp);
    arrive_by_warps(shared.probabilities_empty());
    arrive_by_warps(shared.second_empty(second.index));
    second.advance(second_stages(Gradient::dk_dv));
    StepPairs::pack_all(dp, ds);
  }
  // Adds a step to dk and begins the next one meanwhile.
  template <bool kLast>
  TS_DEVICE void add_dk(Call& call, const Item& t, int i, Weights& ds, float (&dk)[kWidthQk / 2]) {
    const u32 rows = shared.first(first.index);
    const u64 columns = columns_of<kStep>(rows);
    mbarrier_wait(shared.first_full(first.index), first.parity());
    zero_beyond(t, t.step(i), rows, kFirstColumns);
    begin_sums<kWidthQk, kStep>(dk, ds, columns);
    Floats dp;
    if constexpr (!kLast) begin_gradients(dp);
    wgmma_wait<kLast ? 0 : 1>();
    pin(dk);
    arrive_by_warps(shared.first_empty(first.index));
    first.advance(kStages);
    if constexpr (!kLast) end_gradients(call, t, t.step(i + 1), dp, ds);
  }
  TS_DEVICE void walk_dk(const Item& t) {
    const int count = t.step_count();
    if (count > 0) held.load<kStep>(shared.paired_second());
    Call call(args);
    float dk[kWidthQk / 2];
#pragma unroll
    for (int i = 0; i < kWidthQk / 2; ++i) dk[i] = 0.0f;
    ScoreGradients tiles;
    if (passes_gradients(args)) tiles.start(args, t.section);
    for (int h = 0; h < Item::heads_of_part(args); ++h) {
      call.enter(t.sequence, t.batch, t.first_head(args) + h);
      call.dbias = nullptr;  // every pair is added once
      if (passes_gradients(args)) tiles.enter(args, t.section, t.batch, call.head, t.row / kStep);
      if (count > 0) {
        Floats dp;
        Weights ds;
        begin_gradients(dp);
        end_gradients(call, t, t.step(0), dp, ds);
        if (passes_gradients(args)) tiles.store(t.step(0), ds);
        for (int i = 0; i < count - 1; ++i) {
          add_dk<false>(call, t, i, ds, dk);
          if (passes_gradients(args)) tiles.store(t.step(i + 1), ds);
        }
        add_dk<true>(call, t, count - 1, ds, dk);
      }
      if constexpr (cfg::kDalibi) store_of_slope(call, t.row + threadIdx.x / 32 % 4 * 16);
    }
    if (passes_gradients(args)) {
      named_barrier_sync(2 + warpgroup, 128);
      if (threadIdx.x % 128 == 0) count_up(keys_done(args, t.batch, t.head_of_keys(args)));
    }
    store_of_keys<Gradient::dk, kWidthQk>(args, t, t.row, dk, args.scale);
  }
};

}  // namespace ts
