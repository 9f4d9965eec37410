// The last kernel of attention backward where blocks of keys add to dq in float32: times the scale, rounded, stored by
// the strides of dq.
//
// Configuration (namespace ts::cfg): kBf16, kGroupMode (bool), kHeadDimQk, kTileM and kSumColumns as in the kernel that
//   added.
// Launch: 256 threads, a grid of (padded_q / kTileM, heads_q, batch).
#pragma once

#include "../../common/launch.cuh"
#include "workspace.cuh"

namespace ts {

struct ConvertDq {
  const TsCudaAttentionBackwardArgs& args;

  TS_DEVICE void run() const {
    const int head = blockIdx.y, batch = blockIdx.z;
    Sequence sequence;
    sequence.find(args, batch);
    const int first_row = blockIdx.x * cfg::kTileM;
    if (first_row >= sequence.length_q) return;
    const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
    const float4* const from =
        reinterpret_cast<const float4*>(args.dq_sum + (workspace_row(args, batch, head) + first_row) *
                                                          i64{cfg::kSumColumns}) +
        warpgroup * (cfg::kTileM * cfg::kSumColumns / 8) + thread;
    float d[32];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float4 x = from[i * 128];
      d[4 * i] = x.x;
      d[4 * i + 1] = x.y;
      d[4 * i + 2] = x.z;
      d[4 * i + 3] = x.w;
    }
    // A warpgroup has 64 rows and 64 columns: the other rows of narrow heads, the other columns of wide ones.
    static_assert(cfg::kTileM * cfg::kSumColumns == 2 * 64 * 64);
    const int column = cfg::kSumColumns > 64 ? 64 * warpgroup : 0;
    const int row = first_row + (cfg::kSumColumns > 64 ? 0 : 64 * warpgroup) + (thread / 32) * 16 + thread % 32 / 4;
    unsigned short* const dq = static_cast<unsigned short*>(args.grad.dq);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + 8 * r;
      char* const out = query < sequence.length_q
                            ? reinterpret_cast<char*>(
                                  row_of(dq, args.grad.dq_strides, batch, head, query, sequence.offset_q) + column)
                            : nullptr;
      store_row<cfg::kBf16>(out, d, r, args.scale, cfg::kHeadDimQk - column);
    }
  }
};

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_convert_dq
#endif

extern "C" __global__ void __launch_bounds__(256) TS_ENTRY(const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  ts::ConvertDq{args}.run();
}
