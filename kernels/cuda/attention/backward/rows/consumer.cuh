// A consumer warpgroup of the rows template: 64 rows of an item.
//
// What hides a warpgroup's exponentials are the other's products: with 256 columns of sums there are no registers to
// score the next step while a step's sums are multiplied.
#pragma once

#include "../scores.cuh"
#include "items.cuh"

namespace ts {

struct Consumer {
  const Shared& shared;
  const TsCudaAttentionBackwardArgs& args;
  const int warpgroup;
  Place2 first, second;
  RingPlace<1> resident;

  static constexpr int kPairs = kStep / 2;  // registers of a thread
  // Of packed sequences both warpgroups zero rows together, so both walk every step.
  static constexpr bool kZeroesRows = cfg::kGroupMode;

  // Statistics of streamed queries: those of columns 8j, 8j + 1 from the thread's first.
  struct OfColumns {
    u32 address;
    TS_DEVICE float2 operator()(int j) const { return load_pair(address + 32 * j); }
  };
  // Of the thread's two rows.
  struct OfRows {
    float2 both;
    TS_DEVICE float2 operator()(int) const { return both; }
  };

  // Each warp for itself: another may still be reading the statistics that lie with an operand.
  TS_DEVICE static void release(u32 barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
  }

  // Rows from `begin` on become zeros: beyond a packed sequence's end lie its neighbour's, and 0 * NaN is NaN.
  TS_DEVICE static void zero_rows(u32 address, int columns, int begin) {
    const int thread = threadIdx.x - 128;
    const int chunks = (kStep - begin) * 8;  // of 16 bytes
    for (int c = 0; c < columns; ++c) {
      for (int i = thread; i < chunks; i += 128 * kWarpgroups)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address + (c * kStep + begin) * 128 + i * 16),
                     "r"(0)
                     : "memory");
    }
    fence_proxy_async();
    named_barrier_sync(1, 128 * kWarpgroups);
  }

  // d = resident rows of the warpgroup times streamed rows.
  template <int kSteps>
  TS_DEVICE static void multiply(float (&d)[kPairs], u32 rows, u32 streamed) {
    const u64 a = descriptor_k_major(uniform(rows)), b = descriptor_k_major(uniform(streamed));
    pin(d);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      Wgmma<kStep, kElement>::ss(d, a + i / 4 * (kRows * 8) + i % 4 * 2, b + i / 4 * (kStep * 8) + i % 4 * 2, i > 0);
    wgmma_commit();
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
    release(shared.first_empty(first.index));
    release(shared.second_empty(second.index));
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
    if (cfg::kGroupMode && !kOfSecond && rest < kStep) zero_rows(streamed_first, kFirstColumns, rest);
    float s[kPairs], dp[kPairs];
    multiply<kStepsQk>(s, shared.resident_first() + warpgroup * 64 * 128, streamed_first);
    mbarrier_wait(shared.second_full(second.index), second.parity());
    if (cfg::kGroupMode && kOfSecond && rest < kStep) zero_rows(streamed_second, kSecondColumns, rest);
    if constexpr (!kOfSecond)
      multiply<kStepsV>(dp, shared.resident_second() + warpgroup * 64 * 128, streamed_second);

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const Place place = {own + 16 * warp + (lane >> 2), first_streamed + 2 * (lane & 3)};
    const bool masked = kKeyRows ? !t.window.is_whole(first_streamed, kStep, own, 64)
                                 : !t.window.is_whole(own, 64, first_streamed, kStep);
    PairState<kPairs> state;
    if constexpr (cfg::kDropout) StepPairs::draw(call, place, shared.words(threadIdx.x / 32 - 4), state);
    wgmma_wait<kOfSecond ? 0 : 1>();
    pin(s);
    if constexpr (kKeyRows)
      StepPairs::probabilities(call, t.window, place, masked, OfColumns{shared.lse(first.index) + 8 * (lane & 3)}, s, state);
    else
      StepPairs::probabilities(call, t.window, place, masked, lse, s, state);
    u32 weights[kPairs / 2];
    if constexpr (kOfSecond) {
      release(shared.first_empty(first.index));
      StepPairs::pack_kept(s, state, weights);
    } else {
      wgmma_wait<0>();
      pin(dp);
      if constexpr (kKeyRows)
        StepPairs::gradients(call, t.window, place, masked, OfColumns{shared.delta(second.index) + 8 * (lane & 3)}, s, state,
                             dp);
      else
        StepPairs::gradients(call, t.window, place, masked, delta, s, state, dp);
      release(shared.second_empty(second.index));
      StepPairs::pack_all(dp, weights);
    }
    const u64 columns = descriptor_n_major(uniform(kOfSecond ? streamed_second : streamed_first), kStep * 128);
    pin(sums);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStep / 16; ++i)
      Wgmma<kWidth, kElement>::rs(sums, weights[4 * i], weights[4 * i + 1], weights[4 * i + 2], weights[4 * i + 3],
                                  columns + i * 128, 1);
    wgmma_commit();
    wgmma_wait<0>();
    pin(sums);
    release(kOfSecond ? shared.second_empty(second.index) : shared.first_empty(first.index));
    first.advance(kStages);
    second.advance(second_stages(kGradient));
  }

  template <Gradient kGradient, int kWidth>
  TS_DEVICE void store(const Item& t, const float (&sums)[kWidth / 2], float scale) const {
    constexpr bool kIsDq = kGradient == Gradient::dq;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    unsigned short* const tensor = static_cast<unsigned short*>(kIsDq                        ? args.grad.dq
                                                                : kGradient == Gradient::dk ? args.grad.dk
                                                                                            : args.grad.dv);
    const TsStrides& strides = kIsDq                        ? args.grad.dq_strides
                               : kGradient == Gradient::dk ? args.grad.dk_strides
                                                           : args.grad.dv_strides;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = t.row + warpgroup * 64 + 16 * warp + (lane >> 2) + 8 * r;
      char* to = nullptr;
      if (row < (kIsDq ? t.sequence.length_q : t.sequence.length_k))
        to = reinterpret_cast<char*>(row_of(tensor, strides, t.batch, t.head, row,
                                            kIsDq ? t.sequence.offset_q : t.sequence.offset_k));
      store_row<cfg::kBf16>(to, sums, r, scale, kGradient == Gradient::dv ? cfg::kHeadDimV : cfg::kHeadDimQk);
    }
  }

  // The warp's part of the gradient by the head's slope.
  TS_DEVICE void store_of_slope(Call& call, const Item& t) const {
    float sum = call.of_slope;
    call.of_slope = 0.0f;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (threadIdx.x % 32 == 0)
      dalibi_parts_of(args, t.batch, call.head)[t.row / kRows * 8 + threadIdx.x / 32 - 4] = sum;
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
    const int group = static_cast<int>(args.heads_q / args.heads_kv), heads = kIsDq ? 1 : group;
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
      const int head = kIsDq ? t.head : t.head * group + h;
      call.enter(t.sequence, t.batch, head);
      if constexpr (!kIsDq) call.dbias = nullptr;  // every pair is added once
      if (!empty) {
        OfRows lse{}, delta{};
        if constexpr (kIsDq) {
          lse = of_rows(lse_rows(args, t.sequence, t.batch, head), t);
          delta = of_rows(delta_rows(args, t.sequence, t.batch, head), t);
        }
        for (int step = t.steps.begin; step < t.steps.end; ++step) {
          if (!kZeroesRows && sees_none<kGradient>(t, step)) {
            pass_step<kGradient>();
          } else {
            walk_step<kGradient, kWidth>(call, t, step, lse, delta, sums);
          }
        }
      }
      if constexpr (cfg::kDalibi && kGradient == Gradient::dk) store_of_slope(call, t);
    }
    if (!empty) release(shared.resident_empty());
    store<kGradient, kWidth>(t, sums, kGradient == Gradient::dv ? call.keep_scale : args.scale);
  }

  TS_DEVICE void run() {
    ItemRing ring;
    for (int index = ring.pop(shared); index >= 0; index = ring.pop(shared)) {
      Item t;
      t.find(args, index);
      if (t.gradient == Gradient::dk)
        walk<Gradient::dk, kWidthQk>(t);
      else if (t.gradient == Gradient::dv)
        walk<Gradient::dv, kWidthV>(t);
      else
        walk<Gradient::dq, kWidthQk>(t);
    }
  }
};

}  // namespace ts
