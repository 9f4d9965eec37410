// The second step of a split: the partial results of an item's pieces are joined, in ascending order, into outputs and
// log-sum-exps. Items of one piece have written theirs.
//
// Configuration: that of the kernel whose partials these are (attention_fwd.h).
//
// Launch: kLanes threads, a grid of batch * row_tiles * heads * kTileM blocks, one for each row.
#pragma once

#include "item.h"

#include "../../gpu/attention/finish_row.h"
#include "../../gpu/attention/logits.h"

namespace ts {

// A lane has every kLanes-th column.
constexpr int kJoinedColumns = ceil_div(cfg::kHeadDimV, cfg::kLanes);

TS_DEVICE void join(const TsHipAttentionArgs& args) {
  constexpr int kRowFloats = cfg::kHeadDimV + TS_HIP_STATE_FLOATS;
  const int heads = static_cast<int>(cfg::kPackGqa ? args.heads_kv : args.heads_q);
  int rest = block_index();
  const int tile_row = uniform(rest % kTileM);
  rest /= kTileM;
  const int head_of_item = uniform(rest % heads);
  rest /= heads;
  const Item item = item_of(args, uniform(rest / args.row_tiles), head_of_item, uniform(rest % args.row_tiles));
  const int row = item.first_row + tile_row;
  if (row >= item.end_row || item.pieces <= 1) return;

  // What saw nothing adds nothing, whatever its values are: they may be 0 * infinity. A NaN goes on.
  const int lane = thread_index();
  const float* part = args.partials + partial_of(args, item) + tile_row * kRowFloats;
  float base = -kInfinity, sum = 0.0f, o[kJoinedColumns] = {};
#pragma unroll 2
  for (int piece = 0; piece < item.pieces; ++piece, part += kTileM * kRowFloats) {
    const float of_base = part[cfg::kHeadDimV], of_sum = part[cfg::kHeadDimV + 1];
    const bool empty = of_sum == 0.0f;
    const float next = empty ? base : max_nan(base, of_base);
    const float own = sum == 0.0f ? 0.0f : exp2_approx(base - next),
                weight = empty ? 0.0f : exp2_approx(of_base - next);
    sum = fmaf(sum, own, rounded_product(empty ? 0.0f : of_sum, weight));
#pragma unroll
    for (int i = 0; i < kJoinedColumns; ++i) {
      const int column = imin(lane + i * cfg::kLanes, cfg::kHeadDimV - 1);
      o[i] = fmaf(o[i], own, rounded_product(empty ? 0.0f : part[column], weight));
    }
    base = next;
  }

  const int head = head_of(args, item, row), query = query_of(args, row);
  const float sink = cfg::kSink && args.sink != nullptr ? args.sink[head] : -kInfinity;
  const RowResult result = finish_row<cfg::kSink>(base, sum, sink);
  if (cfg::kLse && args.lse != nullptr && lane == 0)
    rows_of(item, args.lse, args.lse_strides, head, item.offset_q)[query * args.lse_strides.row] = result.lse;
  u16* const out =
      rows_of(item, static_cast<u16*>(args.o), args.o_strides, head, item.offset_q) + query * args.o_strides.row;
  const float factor = result.scale * keep_scale(args) * item_scale(args, item, args.v_scale);
#pragma unroll
  for (int i = 0; i < kJoinedColumns; ++i) {
    const int column = lane + i * cfg::kLanes;
    const u32 bits = result.scale == 0.0f ? 0 : pack<cfg::kBf16>(o[i] * factor, 0.0f);
    if (column < cfg::kHeadDimV) out[column] = static_cast<u16>(bits);
  }
}

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_join
#endif

TS_KERNEL(ts::cfg::kLanes, 1) TS_ENTRY(const TsHipAttentionArgs args) {
  ts::join(args);
}
