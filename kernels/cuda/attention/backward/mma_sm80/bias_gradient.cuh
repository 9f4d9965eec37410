// dbias summed over dimensions that the bias broadcasts, always in the same order: a block of threads has kRows x kStep
// elements of it, or those that they are summed into, and walks every pair that belongs there. For sm_80 and newer.
//
// Configuration and shared memory as gradient_rows.cuh. Launch: kThreads threads, a grid of (tiles of kTileM rows of the
// longest sequence * tiles of kTileN keys, heads_q, batch); of what is summed the first block has all.
#pragma once

#include "../../../common/launch.cuh"
#include "layout.cuh"

namespace ts {

struct BiasGradient {
  const TsCudaAttentionBackwardArgs& args;
  const Operands operands;

  static constexpr int kPairs = kStep / 2;
  using TilePairs = Pairs<false, kPairs>;

  // Adds the tile's dt of one head.
  TS_DEVICE void add_tile(const Sequence& sequence, const Window& window, int batch, int head, int row, int column,
                          float (&sums)[kPairs]) const {
    const int group = static_cast<int>(args.heads_q / args.heads_kv), lane = threadIdx.x & 31;
    __syncthreads();
    operands.load_queries<kRows>(operands.shared, operands.shared + kResidentSecond, sequence, batch, head, row);
    operands.load_keys<kStep>(operands.shared + kStreamedFirst, operands.shared + kStreamedSecond, sequence, batch,
                              head / group, column);
    copy_commit();
    copy_wait();
    __syncthreads();
    Call call(args);
    call.enter(sequence, batch, head);
    const int own = row + 16 * Operands::warp();
    const Place place = {own + lane / 4, column + 2 * (lane & 3)};
    const bool masked = !window.is_whole(own, 16, column, kStep);
    PairState<kPairs> state;
    if constexpr (cfg::kDropout) TilePairs::draw(call, place, operands.words(), state);
    float s[kPairs], dp[kPairs];
    operands.score(s);
    TilePairs::probabilities(call, window, place, masked, OfRows(lse_rows(args, sequence, batch, head) + place.row), s, state);
    operands.multiply_seconds(dp);
    TilePairs::gradients_of_logits(call, window, place, masked, OfRows(delta_rows(args, sequence, batch, head) + place.row), s,
                                   state, dp);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) sums[i] += dp[i];
  }

  // The sums of the tile, over its rows or columns too where those are summed.
  TS_DEVICE void store(int batch, int head, int row, int column, const float (&sums)[kPairs]) const {
    const TsStrides& strides = args.grad.dbias_strides;
    float* const dbias = args.grad.dbias + batch * strides.batch + head * strides.head;
    const int rows = imin(kRows, static_cast<int>(args.seqlen_q) - row);
    const int columns = imin(kStep, static_cast<int>(args.seqlen_k) - column);
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    float* const tile = reinterpret_cast<float*>(dynamic_shared);  // [kRows][kStep + 1]
    constexpr int kPitch = kStep + 1;
    const int lane = threadIdx.x & 31;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      tile[(16 * Operands::warp() + lane / 4 + TilePairs::row(i)) * kPitch + 2 * (lane & 3) + TilePairs::column(i)] = sums[i];
    __syncthreads();
    // What lies beyond the lengths is zero: it may be added.
    const int rows_at_once = strides.row == 0 ? kRows : 1, columns_at_once = strides.column == 0 ? kStep : 1;
    const int places = kRows / rows_at_once * (kStep / columns_at_once);
    for (int i = threadIdx.x; i < places; i += kThreads) {
      const int r = i / (kStep / columns_at_once) * rows_at_once, c = i % (kStep / columns_at_once) * columns_at_once;
      if (r >= rows || c >= columns) continue;
      float sum = 0.0f;
      for (int y = 0; y < rows_at_once; ++y)
        for (int x = 0; x < columns_at_once; ++x) sum += tile[(r + y) * kPitch + c + x];
      dbias[(row + r) * strides.row + (column + c) * strides.column] = sum;
    }
  }

  TS_DEVICE void run() const {
    const TsStrides& strides = args.grad.dbias_strides;
    const int tiles_q = ceil_div(static_cast<int>(args.seqlen_q), kRows), tiles_k = ceil_div(static_cast<int>(args.seqlen_k), kStep);
    const int tile_q = blockIdx.x / tiles_k, tile_k = blockIdx.x % tiles_k, head = blockIdx.y, batch = blockIdx.z;
    const auto range = [](int index, int count, i64 stride) { return stride == 0 ? Range{0, count} : Range{index, index + 1}; };
    const Range batches = range(batch, static_cast<int>(args.batch), strides.batch);
    const Range heads = range(head, static_cast<int>(args.heads_q), strides.head);
    const Range q = range(tile_q, tiles_q, strides.row), k = range(tile_k, tiles_k, strides.column);
    if (batches.begin != batch && strides.batch == 0) return;
    if (heads.begin != head && strides.head == 0) return;
    if ((q.begin != tile_q && strides.row == 0) || (k.begin != tile_k && strides.column == 0)) return;
    float sums[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) sums[i] = 0.0f;
#pragma unroll 1
    for (int b = batches.begin; b < batches.end; ++b) {
      Sequence sequence;
      sequence.find(args, b);
      Window window;
      window.start(args, sequence);
#pragma unroll 1
      for (int h = heads.begin; h < heads.end; ++h)
#pragma unroll 1
        for (int y = q.begin; y < q.end && y * kRows < sequence.length_q; ++y) {
          const Range seen = window.template key_tiles<kStep>(y * kRows, kRows);
#pragma unroll 1
          for (int x = imax(k.begin, seen.begin); x < imin(k.end, seen.end); ++x)
            add_tile(sequence, window, b, h, y * kRows, x * kStep, sums);
        }
    }
    store(batch, head, q.begin * kRows, k.begin * kStep, sums);
  }
};

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_bias_gradient
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const ts::BiasGradient gradient{args, {args, ts::smem_address(dynamic_shared)}};
  gradient.run();
}
