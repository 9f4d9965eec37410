// Attention over several parts of the keys, merged: sm_80 and newer.
//
// Configuration, in namespace ts::cfg before this file is included: kFp32, kBf16 (bool), the elements of the outputs.
//
// Launch: kMergeThreads threads, one block for kMergeThreads groups of columns: of 16 bytes where args.aligned, else
// of one element. On sm_90 and newer it may start while the preceding kernel of the stream ends. A thread reads what
// it overwrites, and nobody else does; so o may be one of the outputs.
#pragma once

#include "../common/launch.cuh"
#include "abi.h"
#include "elements.cuh"

namespace ts {

constexpr int kMergeThreads = 256;

TS_DEVICE const float* lses_of(const TsCudaMergeArgs& args, i64 state) {
  return args.listed ? args.lses[state] : args.lses[0] + state * args.lse_step;
}
TS_DEVICE const char* outputs_of(const TsCudaMergeArgs& args, i64 state) {
  return static_cast<const char*>(args.listed ? args.outputs[state] : args.outputs[0]) +
         (args.listed ? 0 : state * args.output_step * kElementBytes);
}

TS_DEVICE i64 offset(const TsStrides& s, i64 b, i64 h, i64 i) {
  return b * s.batch + h * s.head + i * s.row;
}

template <int kCount>
TS_DEVICE void merge_columns(const TsCudaMergeArgs& args) {
  const i64 groups = args.head_dim / kCount, at = static_cast<i64>(blockIdx.x) * kMergeThreads + threadIdx.x;
  if (at >= args.batch * args.heads * args.seqlen * groups) return;
  const i64 row = at / groups, i = row % args.seqlen, h = row / args.seqlen % args.heads,
            b = row / args.seqlen / args.heads;
  const i64 column = at % groups * kCount, lse_at = offset(args.input_lse_strides, b, h, i);
  float top = -kInfinity;
  for (i64 s = 0; s < args.states; ++s) top = max_nan(top, lses_of(args, s)[lse_at]);
  float total = 0.0f, sum[kCount], x[kCount];
#pragma unroll
  for (int e = 0; e < kCount; ++e) sum[e] = 0.0f;
  const i64 from_at = (offset(args.output_strides, b, h, i) + column) * kElementBytes;
  for (i64 s = 0; s < args.states; ++s) {
    const float lse = lses_of(args, s)[lse_at];
    if (lse == -kInfinity) continue;  // it may be anything
    const float weight = expf(lse - top);
    if (weight == 0.0f) continue;
    total += weight;
    load_elements(outputs_of(args, s) + from_at, x);
#pragma unroll
    for (int e = 0; e < kCount; ++e) sum[e] = fmaf(weight, x[e], sum[e]);
  }
  const bool empty = top == -kInfinity;
#pragma unroll
  for (int e = 0; e < kCount; ++e) sum[e] = empty ? 0.0f : sum[e] / total;
  store_elements(sum, static_cast<char*>(args.o) + (offset(args.o_strides, b, h, i) + column) * kElementBytes);
  if (column == 0 && args.lse != nullptr)
    args.lse[offset(args.lse_strides, b, h, i)] = empty ? -kInfinity : top + logf(total);
}

}  // namespace ts

extern "C" __global__ void __launch_bounds__(ts::kMergeThreads) TS_ENTRY(const __grid_constant__ TsCudaMergeArgs args) {
  ts::let_next_kernel_start();
  ts::wait_for_previous_kernel();
  if (args.aligned)
    ts::merge_columns<16 / ts::kElementBytes>(args);
  else
    ts::merge_columns<1>(args);
}
