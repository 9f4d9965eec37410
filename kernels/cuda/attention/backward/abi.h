// What the CUDA kernels of attention backward are called with. The meaning is that of contract/attention_backward.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg followed by one include: "dot_do_o.cuh",
// "hopper/dq_dk_dv.cuh" or "convert_dq.cuh". It defines one entry, extern "C" __global__, named by
// the macro TS_ENTRY. How the entry is launched stands at the top of those files. The kernels are freestanding and
// compile with NVRTC.
//
// The workspace: with padded_q = seqlen_q rounded up to TS_CUDA_BACKWARD_ROWS,
// clang-format off
//   statistics [2][batch][heads_q][padded_q]   lse * log2(e), +inf where a row saw nothing or is beyond the sequence;
//                                              then delta, 0 there
//   dq_sum     [batch][heads_q][padded_q * columns]   dq before the scale; columns = 64 or 128. In tiles of kTileM rows,
//                                              a tile in the order of the accumulators: [warpgroup][registers 4i .. 4i + 3][thread][4]
// clang-format on
#pragma once

#include "../../../contract/attention_backward.h"
#include "../abi.h"

#define TS_CUDA_BACKWARD_ROWS 128

// Passed by value as a __grid_constant__ parameter. Of the forward's structure `tile_counters`, `work_items`,
// `row_tiles` (here: the longest sequence's blocks of keys, or of rows) and `section_heads` serve the persistent kernels.
struct TsCudaAttentionBackwardArgs : TsCudaAttentionArgs {
  TsAttentionGradients grad;
  float* statistics;
  float* dq_sum;
  int padded_q;
};

// The tensor maps of a Hopper kernel, by value as a __grid_constant__ parameter.
struct TsCudaBackwardMaps {
  TsCudaTensorMap q, k, v, dout;
};
