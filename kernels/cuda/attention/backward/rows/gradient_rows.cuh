// Attention backward for Hopper (sm_90a), head dimensions up to 256, without additions in memory: dk and dv by blocks of keys,
// dq by blocks of its own rows: five products where gradients of scores pass through memory (score_gradients.cuh), else seven
// (eight where dk and dv have items of their own: layout.cuh). Warp-specialised, persistent, fed by the tensor copy engine. The
// same call gives the same bits.
//
// Configuration (namespace ts::cfg): kBf16, kHeadDimQk, kHeadDimV (multiples of 8 up to 256), kMaskRight, kMaskLeft,
//   kGroupMode, kSoftCap, kBias, kAlibi, kDropout, kDbias, kDalibi as in ../hopper/dq_dk_dv.cuh.
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), a grid of min(work_items, SMs) blocks.
//   row_tiles = ceil(seqlen_k / 128); work_items = 2 * batch * heads_kv * row_tiles + batch * heads_q *
//   ceil(seqlen_q / 128); section_heads counts heads of keys. With score_gradients the heads of whole sections.
// Tensor maps as in ../hopper/dq_dk_dv.cuh, but every box has 64 rows.
#pragma once

#include "consumer.cuh"
#include "producer.cuh"

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_gradient_rows
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaBackwardMaps maps, const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  ts::Shared shared{(ts::smem_address(dynamic_shared) + 1023u) & ~1023u};
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == 0) {
    ts::shrink_registers<24>();
    if (threadIdx.x == 0) {
      ts::Producer producer{shared, maps, args};
      producer.run();
    }
  } else {
    ts::grow_registers<240>();
    ts::Consumer consumer{shared, args, warpgroup - 1};
    consumer.run();
  }
}
