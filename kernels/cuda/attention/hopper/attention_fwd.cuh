// Attention forward for Hopper (sm_90a): warp-specialised, persistent, fed by the tensor copy engine.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise):
//   kBf16 (bool)        element type bf16, else fp16; with kFp8 that of the output alone
//   kFp8 (bool)         queries, keys and values are e4m3
//   kBlockScale (bool)  with kFp8: the scales change along the sequence, too (abi.h)
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 256; with kFp8 of 16
//   kWarpgroups         consumer warpgroups, 1..3: the tile has 64 rows for each
//   kTileN              keys of a block, a multiple of 16; with kFp8 of 32, with kBlockScale 32, 64 or 128
//   kStages             key blocks and value blocks in flight
//   kQStages            1, or 2 to load the next tile's queries early
//   kBlocksPerSm        blocks that share an SM
//   kPackGqa            1, or heads_q / heads_kv where that divides 64: a tile's rows are (query, head of the group)
//   kPingPong, kDynamicScheduler (bool)   turns between warpgroups; atomic scheduling
//   kLateWait (bool)    wait for P x V after half of the exponentials instead of before them
//   kLateStore (bool)   store a tile's output while the next tile's second block is scored, not before it
//   kMaskRight, kMaskLeft (bool)   the window is bounded on that side (a causal mask is a right bound of 0)
//   kPaged (bool)       keys and values lie in pages (../../../contract/paged_keys.h)
//   kCacheFp8, kCacheInt8 (bool)   of pages: they are e4m3 or int8, one at most, head dimensions multiples of 16; kPageScale:
//     false
//   kGroupMode, kLse, kSink, kSoftCap, kBias, kAlibi, kDropout, kNegativeScale (bool); with
//     dropout kTileN is a multiple of 32
//   kBiasStages         with kBias: blocks of the bias in flight for each warpgroup, through the tensor map `bias`
//     (kTileN a multiple of 32); 0 reads the bias element by element, with any strides and alignment, at half the speed
//
// With kFp8 kPackGqa is 1 and kBiasStages 0, and with kBlockScale there is no kAlibi; all else goes together. The
// probabilities are rounded to e4m3 before P x V, the row sums and the lse are not.
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), a grid of min(work_items, SMs *
// kBlocksPerSm) blocks. It may start while the preceding kernel of the stream ends.
//   first_tile + row_tiles = ceil(seqlen_q * kPackGqa / (64 * kWarpgroups)), row_tiles > 0 where there are queries, and
//   first_tile is 0 without kFreeWarps (layout.cuh); heads = kPackGqa > 1 ? heads_kv : heads_q;
//   work_items = batch * heads * row_tiles; section_heads and sections: 1 and batch * heads without bounds, else heads
//   whose keys and values L2 holds, and what of batch * heads such sections cover before the last one.
// Tensor maps (16-bit elements, with kFp8 8-bit ones and TMA boxes of 128 instead of 64; 128-byte swizzle, zero fill),
// dimensions innermost first; group mode has batch = 1 and the total rows:
//   q  {head_dim_qk, kPackGqa, seqlen_q, heads, batch}, box {64, kPackGqa, 64 / kPackGqa, 1, 1}
//   k  {head_dim_qk, seqlen_k, heads_kv, batch}, v the same with head_dim_v, box {64, kTileN, 1, 1}
//      of pages (kPaged) {head_dim_qk, page_size, heads_kv, pages}, box {64, map_rows, 1, 1} (abi.h), not read if map_rows
//      is 0
//   q_rest, k_rest, v_rest: without kPaged and kFp8 the same tensors where a head dimension is no multiple of 64, and boxes of
//      head_dim % 64 in place of 64; then q, k and v are read from 64 elements on only
//   bias (with kBiasStages > 0 and a bias that is not null; float32 elements, the same swizzle and fill)
//      {seqlen_k, kPackGqa, seqlen_q, heads, batch}, box {32, kPackGqa, 64 / kPackGqa, 1, 1}; in group
//      mode, too, batch is the number of sequences and rows and keys are those of the longest one. The keys are
//      contiguous (column == 1); the pointer is a multiple of 16 bytes, the other strides multiples of 4 elements, 0
//      where the bias is broadcast.
// Pointers and strides of q, k, v and o are multiples of 16 bytes; a length of 0 is encoded as 1.
#pragma once

namespace ts::cfg {
constexpr bool kFp32 = false;
}

#include "consumer.cuh"
#include "hidden_rows.cuh"
#include "page_widener.cuh"
#include "transpose.cuh"

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaTensorMaps maps, const __grid_constant__ TsCudaAttentionArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  ts::Shared shared{(ts::smem_address(dynamic_shared) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    shared.init_barriers(ts::cfg::kPaged && !ts::comes_in_boxes(args) ? 32 : 1, ts::page_warps(args));
    ts::Producer{shared, maps}.prefetch(args);
  }
  shared.clear_pads();
  __syncthreads();
  ts::wait_for_previous_kernel();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == 0) {
    ts::shrink_registers<ts::kProducerRegisters>();
    // Here and not among the roles, where it made the compiler spill.
    if constexpr (ts::kFreeWarps > 0) {
      if (args.first_tile > 0 && threadIdx.x >= 128 - 32 * ts::kFreeWarps) ts::write_hidden_rows(args);
    }
    if constexpr (ts::cfg::kFp8) {
      ts::produce_fp8(args, shared, maps);
    } else if constexpr (ts::kWidens) {
      ts::produce_widened(args, shared, maps);
    } else if (threadIdx.x == 0) {
      ts::Producer producer{shared, maps};
      producer.run(args);
    } else if (ts::kMostPageWarps > 0 && static_cast<int>(ts::uniform(threadIdx.x / 32)) > 3 - ts::page_warps(args)) {
      ts::follow_tiles(args, shared, maps, static_cast<int>(ts::uniform(threadIdx.x / 32)));
    } else if (ts::kSharedBias && threadIdx.x % 32 == 0 && threadIdx.x / 32 <= ts::cfg::kWarpgroups) {
      ts::BiasProducer producer{shared, maps, static_cast<int>(threadIdx.x / 32) - 1};
      producer.run(args);
    }
  } else {
    ts::grow_registers<ts::kConsumerRegisters>();
    ts::Consumer consumer{shared, args, warpgroup - 1};
    consumer.run();
  }
}
