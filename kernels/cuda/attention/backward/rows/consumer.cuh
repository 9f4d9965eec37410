// A consumer warpgroup of the rows template: 64 rows of an item.
//
// What hides a warpgroup's exponentials are the other's products: with 256 columns of sums there are no registers to
// score the next step while a step's sums are multiplied.
#pragma once

#include "items.cuh"
#include "pair.cuh"

namespace ts {

struct Consumer {
  const Shared& shared;
  const TsCudaAttentionBackwardArgs& args;
  const int warpgroup;
  Place2 first, second;
  RingPlace<1> resident, passed;

  static constexpr int kPairs = kStep / 2;  // registers of a thread
  // Of packed sequences both warpgroups zero rows together, so both walk every step.
  static constexpr bool kZeroesRows = cfg::kGroupMode;

  // Of the thread's two rows.
  struct OfRows {
    float2 both;
    TS_DEVICE float2 operator()(int) const { return both; }
  };

  TS_DEVICE static void zero_beyond(u32 address, int columns, int rest) {
    zero_rows<128 * kWarpgroups>(address, columns, kStep, rest);
    end_zeros<128 * kWarpgroups>(1);
  }

  // Whether the warpgroup's rows see none of a step, as beside a diagonal: the other's do.
  template <Gradient kGradient>
  TS_DEVICE bool sees_none(const Item& t, int step) const {
    if constexpr (!cfg::kMaskRight && !cfg::kMaskLeft) return false;
    const int own = t.row + 64 * warpgroup;
    return kGradient == Gradient::dq ? t.window.is_hidden(own, 64, step * kStep, kStep)
                                     : t.window.is_hidden(step * kStep, kStep, own, 64);
  }
  template <Gradient kGradient>
  TS_DEVICE void pass_step() {
    mbarrier_wait(shared.first_full(first.index), first.parity());
    mbarrier_wait(shared.second_full(second.index), second.parity());
    arrive_by_warps(shared.first_empty(first.index));
    arrive_by_warps(shared.second_empty(second.index));
    first.advance(kStages);
    second.advance(second_stages(kGradient));
  }

  // One step of one head.
  template <Gradient kGradient, int kWidth>
  TS_DEVICE void walk_step(Call& call, const Item& t, int step, const OfRows& lse, const OfRows& delta,
                           float (&sums)[kWidth / 2]) {
    constexpr bool kKeyRows = kGradient != Gradient::dq, kOfSecond = kGradient == Gradient::dv;
    using StepPairs = Pairs<kKeyRows, kPairs>;
    const u32 streamed_first = shared.first(first.index), streamed_second = shared.second(second.index);
    const int first_streamed = step * kStep, own = t.row + 64 * warpgroup;
    const int rest = (kKeyRows ? t.sequence.length_q : t.sequence.length_k) - first_streamed;
    mbarrier_wait(shared.first_full(first.index), first.parity());
    if (cfg::kGroupMode && !kOfSecond && rest < kStep) zero_beyond(streamed_first, kFirstColumns, rest);
    float s[kPairs], dp[kPairs];
    begin_product<kStepsQk, kRows>(s, HeldRows<0>{}, shared.resident_first() + warpgroup * 64 * 128, streamed_first);
    mbarrier_wait(shared.second_full(second.index), second.parity());
    if (cfg::kGroupMode && kOfSecond && rest < kStep) zero_beyond(streamed_second, kSecondColumns, rest);
    if constexpr (!kOfSecond)
      begin_product<kStepsV, kRows>(dp, HeldRows<0>{}, shared.resident_second() + warpgroup * 64 * 128, streamed_second);

    const Place place = first_pair(own, first_streamed);
    const bool masked = kKeyRows ? !t.window.is_whole(first_streamed, kStep, own, 64)
                                 : !t.window.is_whole(own, 64, first_streamed, kStep);
    PairState<kPairs> state;
    if constexpr (cfg::kDropout) StepPairs::draw(call, place, shared.words(threadIdx.x / 32 - 4), state);
    wgmma_wait<kOfSecond ? 0 : 1>();
    pin(s);
    if constexpr (kKeyRows)
      StepPairs::probabilities(call, t.window, place, masked, of_columns(shared.lse(first.index)), s, state);
    else
      StepPairs::probabilities(call, t.window, place, masked, lse, s, state);
    u32 weights[kPairs / 2];
    if constexpr (kOfSecond) {
      arrive_by_warps(shared.first_empty(first.index));
      StepPairs::pack_kept(s, state, weights);
    } else {
      wgmma_wait<0>();
      pin(dp);
      if constexpr (kKeyRows)
        StepPairs::gradients(call, t.window, place, masked, of_columns(shared.delta(second.index)), s, state,
                             dp);
      else
        StepPairs::gradients(call, t.window, place, masked, delta, s, state, dp);
      arrive_by_warps(shared.second_empty(second.index));
      StepPairs::pack_all(dp, weights);
    }
    begin_sums<kWidth, kStep>(sums, weights, columns_of<kStep>(kOfSecond ? streamed_second : streamed_first));
    wgmma_wait<0>();
    pin(sums);
    arrive_by_warps(kOfSecond ? shared.second_empty(second.index) : shared.first_empty(first.index));
    first.advance(kStages);
    second.advance(second_stages(kGradient));
  }

  template <Gradient kGradient, int kWidth>
  TS_DEVICE void store(const Item& t, const float (&sums)[kWidth / 2], float scale) const {
    const int row = t.row + 64 * warpgroup;
    if constexpr (kGradient == Gradient::dq) {
      store_rows<kWidth>(sums, args.grad.dq, args.grad.dq_strides, t.batch, t.head, row, t.sequence.length_q,
                         t.sequence.offset_q, scale, cfg::kHeadDimQk);
    } else {
      store_of_keys<kGradient, kWidth>(args, t, row, sums, scale);
    }
  }

  // The statistics of the thread's two rows of queries.
  TS_DEVICE OfRows of_rows(const float* rows, const Item& t) const {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const float* const from = rows + t.row + 64 * warpgroup + 16 * warp + (lane >> 2);
    return {{from[0], from[8]}};
  }

  template <Gradient kGradient, int kWidth>
  TS_DEVICE void walk(const Item& t) {
    constexpr bool kIsDq = kGradient == Gradient::dq;
    const int heads = kIsDq ? 1 : Item::heads_of_part(args);
    Call call(args);
    float sums[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) sums[i] = 0.0f;
    const bool empty = t.steps.begin >= t.steps.end;
    first.index = second.index = 0;
    if (!empty) {
      mbarrier_wait(shared.resident_full(), resident.phase);
      resident.advance();
    }
    for (int h = 0; h < heads; ++h) {
      const int head = kIsDq ? t.head : t.first_head(args) + h;
      call.enter(t.sequence, t.batch, head);
      if constexpr (!kIsDq) call.dbias = nullptr;  // every pair is added once
      if (!empty) {
        OfRows lse{}, delta{};
        if constexpr (kIsDq) {
          lse = of_rows(lse_rows(args, t.sequence, t.batch, head), t);
          delta = of_rows(delta_rows(args, t.sequence, t.batch, head), t);
        }
        for (int i = 0; i < t.step_count(); ++i) {
          const int step = t.step(i);
          if (!kZeroesRows && sees_none<kGradient>(t, step)) {
            pass_step<kGradient>();
          } else {
            walk_step<kGradient, kWidth>(call, t, step, lse, delta, sums);
          }
        }
      }
      if constexpr (cfg::kDalibi && kGradient == Gradient::dk) store_of_slope(call, t.row + (threadIdx.x / 32 - 4) * 16);
    }
    if (!empty) arrive_by_warps(shared.resident_empty());
    store<kGradient, kWidth>(t, sums, kGradient == Gradient::dv ? call.keep_scale : args.scale);
  }

  // dq of gradients of scores that items of keys have stored.
  TS_DEVICE void add_passed(const Item& t) {
    float sums[kWidthQk / 2];
#pragma unroll
    for (int i = 0; i < kWidthQk / 2; ++i) sums[i] = 0.0f;
    first.index = second.index = 0;
    for (int step = t.steps.begin; step < t.steps.end; ++step) {
      mbarrier_wait(shared.second_full(second.index), second.parity());
      mbarrier_wait(shared.first_full(first.index), first.parity());
      if constexpr (cfg::kGroupMode) {
        const int rest = t.sequence.length_k - step * kStep;
        if (rest < kStep) zero_beyond(shared.first(first.index), kFirstColumns, rest);
      }
      if (t.row + 64 * warpgroup < t.sequence.length_q && !sees_none<Gradient::dq>(t, step)) {
        u32 weights[kStep / 4];
        load_passed(shared.second(second.index) + warpgroup * kTileBytes, weights);
        arrive_by_warps(shared.second_empty(second.index));
        begin_sums<kWidthQk, kStep>(sums, weights, columns_of<kStep>(shared.first(first.index)));
        wgmma_wait<0>();
        pin(sums);
      } else {
        arrive_by_warps(shared.second_empty(second.index));
      }
      arrive_by_warps(shared.first_empty(first.index));
      first.advance(kStages);
      second.advance(second_stages(Gradient::dk_dv));
    }
    named_barrier_sync(2 + warpgroup, 128);
    if (threadIdx.x % 128 == 0) count_up(queries_done(args, t.section));
    store<Gradient::dq, kWidthQk>(t, sums, args.scale);
    asm volatile("// of passed gradients" ::: "memory");  // keeps the compiler from joining this store with the other items', which spills
  }

  TS_DEVICE void walk_pair(const Item& t) {
    const bool empty = t.step_count() == 0;
    first.index = second.index = 0;
    if (!empty) {
      mbarrier_wait(shared.resident_full(), resident.phase);
      resident.advance();
    }
    Pair pair{shared, args, warpgroup, first, second, passed};
    if (warpgroup == 0) {
      pair.walk_dv(t);
    } else {
      pair.walk_dk(t);
    }
    if (!empty) arrive_by_warps(shared.resident_empty());
  }

  TS_DEVICE void run() {
    ItemRing ring;
    Item t;
    // With a pop at the loop's head alone kernels of many traits spilled twice as much (ptxas 13.0).
    for (bool more = ring.pop(shared, args, t); more; more = ring.pop(shared, args, t)) {
      if (passes_gradients(args) && t.gradient == Gradient::dq) {
        add_passed(t);
        continue;
      }
      if (t.gradient == Gradient::dq) {
        walk<Gradient::dq, kWidthQk>(t);
      } else if constexpr (kPaired) {
        walk_pair(t);
      } else if (t.gradient == Gradient::dk) {
        walk<Gradient::dk, kWidthQk>(t);
      } else {
        walk<Gradient::dv, kWidthV>(t);
      }
    }
  }
};

}  // namespace ts
