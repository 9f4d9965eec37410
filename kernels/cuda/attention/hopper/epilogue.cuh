// The end of a tile: divide by the row sums, round, and store straight from registers.
//
// An exchange between neighbouring lanes makes a warp's store write whole 32-byte sectors, without staging in shared
// memory and without a tensor map of the output; rows beyond the sequence are left alone, as packed sequences need.
#pragma once

#include "../logits.cuh"
#include "scheduler.cuh"

namespace ts {

constexpr int kOutputs = kOutputColumns / 2;  // output registers of a thread

// Returns whether the thread's rows are right: with kTrusting a row may have needed a maximum that was not taken.
TS_DEVICE bool store_tile(const TsCudaAttentionArgs& args, const Tile& t, int warpgroup, RowState& rows,
                          float (&o)[kOutputs], float value_scale) {
  const int lane = threadIdx.x & 31;
  const int first_row = t.row + warpgroup * kWarpgroupRows + (threadIdx.x >> 5 & 3) * 16 + (lane >> 2);
  bool right = true;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + 8 * r;
    const int query = row / cfg::kPackGqa;
    const int head = cfg::kPackGqa > 1 ? t.head * cfg::kPackGqa + row % cfg::kPackGqa : t.head;
    const float sink = cfg::kSink && args.sink != nullptr ? args.sink[head] : -kInfinity;
    const float sum = quad_sum(rows.sum[r]);
    const RowResult result = finish_row<cfg::kSink>(base_logit(rows.peak[r]), sum, sink);
    const bool inside = row < t.rows();
    if constexpr (kTrusting) right = right && (!inside || is_within(sum));
    const i64 position = query + t.offset_q;
    const i64 batch = cfg::kGroupMode ? 0 : t.batch;
    if (cfg::kLse && args.lse != nullptr && inside && (lane & 3) == 0) {
      args.lse[batch * args.lse_strides.batch + head * args.lse_strides.head + position * args.lse_strides.row] =
          result.lse;
    }
    char* const out = static_cast<char*>(args.o) +
                      2 * (batch * args.o_strides.batch + head * args.o_strides.head + position * args.o_strides.row);
    store_row<cfg::kBf16>(inside ? out : nullptr, o, r,
                          result.scale * keep_scale(args) * (cfg::kFp8 || kWidens ? value_scale : 1.0f), cfg::kHeadDimV);
  }
  return right;
}

}  // namespace ts
