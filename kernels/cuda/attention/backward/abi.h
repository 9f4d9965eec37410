// What the CUDA kernels of attention backward are called with. The meaning is that of contract/attention_backward.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg followed by one include: "dot_do_o.cuh",
// "hopper/dq_dk_dv.cuh" or "convert_dq.cuh". It defines one entry, extern "C" __global__, named by
// the macro TS_ENTRY. How the entry is launched stands at the top of those files. The kernels are freestanding and
// compile with NVRTC.
//
// The workspace has padded_q rows for each head. Batch mode: seqlen_q rounded up to TS_CUDA_BACKWARD_ROWS. Group mode has
// no dimension of batch: sequence b begins at row cu_seqlens_q[b] + b * TS_CUDA_BACKWARD_ROWS, rounded down to
// TS_CUDA_BACKWARD_ROWS, and padded_q is what that gives for b = batch.
// clang-format off
//   statistics [2][batch][heads_q][padded_q]   lse * log2(e), +inf where a row saw nothing or is beyond the sequence;
//                                              then delta, 0 there
//   dq_sum     [batch][heads_q][padded_q * columns]   dq before the scale; columns = 64 or 128. In tiles of kTileM rows,
//                                              a tile in the order of the accumulators: [warpgroup][registers 4i .. 4i + 3][thread][4]
//                                              with ordered additions the first block of keys stores it: nothing is zeroed.
//                                              Null in batch mode where a head of keys has one block, which every query sees a key of: its
//                                              products round and store dq themselves, in any order
//   turns      [batch][heads_q][padded_q / TS_CUDA_BACKWARD_TURN_ROWS][2 warpgroups]   with ordered additions, else null: the
//                                              blocks of keys that have added to a tile, at its first row
//   dsink_parts [batch][blocks of rows][heads_q]      of each block of TS_CUDA_BACKWARD_ROWS rows of the longest sequence
//   dalibi_parts [batch][heads_q][blocks of keys][8 warps]   of each block of 128 keys of the longest sequence
//   score_gradients [TS_CUDA_BACKWARD_SECTIONS][heads of q of a section][blocks of 64 keys][blocks of 64 queries][8192 bytes]
//                                              tiles of rows/score_gradients.cuh, else null
//   key_parts  [batch][heads_kv][parts][key_blocks][columns]   where several blocks of threads share the walk of a block of keys:
//                                              dk, then dv of each after the scale, fp32, 16 columns of 128 keys at a time in
//                                              the order of the accumulators, [columns / 16][registers 4i .. 4i + 3][256 threads][4]; else null
//   progress   [batch][heads_kv], [sections]   with score_gradients: items of keys of a head that are done, then twice the items
//                                              of queries of a section
// clang-format on
#pragma once

#include "../../../contract/attention_backward.h"
#include "../abi.h"

#define TS_CUDA_BACKWARD_ROWS 128
#define TS_CUDA_BACKWARD_TURN_ROWS 64
// Sections of heads whose gradients of scores have a place in the workspace.
#define TS_CUDA_BACKWARD_SECTIONS 3

// Passed by value as a __grid_constant__ parameter. Of the forward's structure `tile_counters`, `work_items`,
// `row_tiles` (here: the longest sequence's blocks of keys, or of rows) and `section_heads` serve the persistent kernels.
struct TsCudaAttentionBackwardArgs : TsCudaAttentionArgs {
  TsAttentionGradients grad;
  float* statistics;
  float* dq_sum;
  unsigned int* turns;
  float* dsink_parts;
  float* dalibi_parts;
  int key_blocks;  // of the longest sequence
  int padded_q;
  unsigned int* score_gradients;
  unsigned int* progress;
  int progress_counts;
  // Parts of a walk: of the heads of a group, and of each one's tiles. Both 1 where a block walks all.
  int head_parts, tile_parts;
  float* key_parts;
};

// The tensor maps of a Hopper kernel, by value as a __grid_constant__ parameter.
struct TsCudaBackwardMaps {
  TsCudaTensorMap q, k, v, dout;
};
