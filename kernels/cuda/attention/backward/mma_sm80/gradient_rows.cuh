// Attention backward for sm_80 and newer, of 16-bit elements and float32: each gradient by blocks of its own rows, eight
// products in all, and nothing is added in memory. The same call gives the same bits. The Hopper templates are faster
// where they apply.
//
// Configuration (namespace ts::cfg; constexpr, int unless said otherwise):
//   kFp32, kTf32x3, kBf16, kUnaligned (bool)   as in ../../mma_sm80/attention_fwd.cuh
//   kHeadDimQk, kHeadDimV   1 to 256
//   kTileM              rows of an item, a multiple of 16
//   kTileN              rows of the other side in a step: 16 or 32
//   kMaskRight, kMaskLeft, kGroupMode, kSoftCap, kBias, kAlibi, kDropout, kDbias, kDalibi (bool) as in ../hopper/dq_dk_dv.cuh
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), a grid of work_items blocks.
//   row_tiles = ceil(seqlen_k / kTileM); work_items = 2 * batch * heads_kv * row_tiles + batch * heads_q *
//   ceil(seqlen_q / kTileM).
#pragma once

#include "../../../common/launch.cuh"
#include "../rows/item.cuh"
#include "layout.cuh"

namespace ts {

using Item = ItemOfRows<kRows, kStep>;

struct GradientRows {
  const TsCudaAttentionBackwardArgs& args;
  const Operands operands;

  // sums (16 x kWidth) += weights (16 x kStep) times the streamed rows at `rows`.
  template <int kWidth, int kPitch>
  TS_DEVICE static void add(float (&sums)[kWidth / 2], const float (&weights)[kStep / 2], u32 rows) {
    if constexpr (cfg::kFp32) {
      Operand<4> a[kStep / 8];
      take_weights(a, weights);
#pragma unroll
      for (int n = 0; n < kWidth; n += 16) {
        __syncwarp();  // else the compiler loads several groups of columns ahead, and spills
        float part[8] = {};
        multiply_columns_fp32<kPitch>(part, a, rows + 4 * n);
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[n / 2 + i] += part[i];
      }
    } else {
      u32 packed[kStep / 4];
      Pairs<false, kStep / 2>::pack_all(weights, packed);
      multiply_columns<kStep, kWidth, kPitch>(sums, packed, rows);
    }
  }

  template <Gradient kGradient, int kWidth>
  TS_DEVICE void walk_step(Call& call, const Item& t, int step, float (&sums)[kWidth / 2]) const {
    constexpr bool kKeyRows = kGradient != Gradient::dq, kOfSecond = kGradient == Gradient::dv;
    using StepPairs = Pairs<kKeyRows, kStep / 2>;
    const int lane = threadIdx.x & 31, first_streamed = step * kStep, own = t.row + 16 * Operands::warp();
    const Place place = {own + lane / 4, first_streamed + 2 * (lane & 3)};
    const bool masked = kKeyRows ? !t.window.is_whole(first_streamed, kStep, own, 16)
                                 : !t.window.is_whole(own, 16, first_streamed, kStep);
    const float* const lse = lse_rows(args, t.sequence, t.batch, call.head);
    const float* const delta = delta_rows(args, t.sequence, t.batch, call.head);
    PairState<kStep / 2> state;
    if constexpr (cfg::kDropout) StepPairs::draw(call, place, operands.words(), state);
    float s[kStep / 2];
    operands.score(s);
    if constexpr (kKeyRows)
      StepPairs::probabilities(call, t.window, place, masked, OfColumns{lse + place.column}, s, state);
    else
      StepPairs::probabilities(call, t.window, place, masked, OfRows(lse + place.row), s, state);
    if constexpr (kOfSecond) {
#pragma unroll
      for (int i = 0; i < kStep / 2; ++i)
        if (!StepPairs::is_kept(state, i)) s[i] = 0.0f;
      add<kWidth, kPitchV>(sums, s, operands.shared + kStreamedSecond);
    } else {
      float dp[kStep / 2];
      operands.multiply_seconds(dp);
      if constexpr (kKeyRows)
        StepPairs::gradients(call, t.window, place, masked, OfColumns{delta + place.column}, s, state, dp);
      else
        StepPairs::gradients(call, t.window, place, masked, OfRows(delta + place.row), s, state, dp);
      add<kWidth, kPitchQk>(sums, dp, operands.shared + kStreamedFirst);
    }
  }

  template <Gradient kGradient, int kWidth>
  TS_DEVICE void store(const Item& t, const float (&sums)[kWidth / 2], float scale) const {
    constexpr bool kIsDq = kGradient == Gradient::dq;
    void* const tensor = kIsDq ? args.grad.dq : kGradient == Gradient::dk ? args.grad.dk : args.grad.dv;
    const TsStrides& strides = kIsDq                        ? args.grad.dq_strides
                               : kGradient == Gradient::dk ? args.grad.dk_strides
                                                           : args.grad.dv_strides;
    constexpr int kColumns = kGradient == Gradient::dv ? cfg::kHeadDimV : cfg::kHeadDimQk;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = t.row + 16 * Operands::warp() + threadIdx.x % 32 / 4 + 8 * r;
      char* to = nullptr;
      if (row < (kIsDq ? t.sequence.length_q : t.sequence.length_k))
        to = reinterpret_cast<char*>(row_of(static_cast<Stored*>(tensor), strides, t.batch, t.head, row,
                                            kIsDq ? t.sequence.offset_q : t.sequence.offset_k));
      if constexpr (cfg::kFp32) {
        store_row_fp32(to, sums, r, scale, kColumns);
      } else if constexpr (cfg::kUnaligned) {
        store_row_by_elements<cfg::kBf16>(to, sums, r, scale, kColumns);
      } else {
        store_row<cfg::kBf16>(to, sums, r, scale, kColumns);
      }
    }
  }

  // The warp's part of the gradient by the head's slope.
  TS_DEVICE void store_of_slope(Call& call, const Item& t) const {
    float sum = call.of_slope;
    call.of_slope = 0.0f;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    const int part = t.row / 16 + Operands::warp();
    if (threadIdx.x % 32 == 0 && 16 * part < t.sequence.length_k)
      dalibi_parts_of(args, t.batch, call.head)[part] = sum;
  }

  template <Gradient kGradient, int kWidth>
  TS_DEVICE void walk(const Item& t) const {
    constexpr bool kIsDq = kGradient == Gradient::dq;
    const int group = static_cast<int>(args.heads_q / args.heads_kv), heads = kIsDq ? 1 : group;
    const u32 resident = operands.shared, streamed = operands.shared + kStreamedFirst;
    Call call(args);
    float sums[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) sums[i] = 0.0f;
    if constexpr (kIsDq)
      operands.load_queries<kRows>(resident, resident + kResidentSecond, t.sequence, t.batch, t.head, t.row);
    else
      operands.load_keys<kRows>(resident, resident + kResidentSecond, t.sequence, t.batch, t.head, t.row);
#pragma unroll 1
    for (int h = 0; h < heads; ++h) {
      call.enter(t.sequence, t.batch, kIsDq ? t.head : t.head * group + h);
      if constexpr (!kIsDq) call.dbias = nullptr;  // every pair is added once
#pragma unroll 1
      for (int step = t.steps.begin; step < t.steps.end; ++step) {
        __syncthreads();
        if constexpr (kIsDq)
          operands.load_keys<kStep>(streamed, operands.shared + kStreamedSecond, t.sequence, t.batch, t.head / group,
                                    step * kStep);
        else
          operands.load_queries<kStep>(streamed, operands.shared + kStreamedSecond, t.sequence, t.batch, call.head,
                                       step * kStep);
        copy_commit();
        copy_wait();
        __syncthreads();
        walk_step<kGradient, kWidth>(call, t, step, sums);
      }
      if constexpr (cfg::kDalibi && kGradient == Gradient::dk) store_of_slope(call, t);
    }
    store<kGradient, kWidth>(t, sums, kGradient == Gradient::dv ? call.keep_scale : args.scale);
  }

  TS_DEVICE void run() const {
    Item t;
    if (!t.find(args, blockIdx.x)) return;
    if (t.gradient == Gradient::dk)
      walk<Gradient::dk, kWidthQk>(t);
    else if (t.gradient == Gradient::dv)
      walk<Gradient::dv, kWidthV>(t);
    else
      walk<Gradient::dq, kWidthQk>(t);
  }
};

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_gradient_rows
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const ts::GradientRows rows{args, {args, ts::smem_address(dynamic_shared)}};
  rows.run();
}
