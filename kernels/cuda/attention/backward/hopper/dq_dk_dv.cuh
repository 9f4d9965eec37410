// The five products of attention backward for Hopper (sm_90a), head dimensions up to 128: warp-specialised, persistent,
// fed by the tensor copy engine. Blocks of keys add to dq in float32; convert_dq.cuh rounds it.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise):
//   kBf16 (bool)        element type bf16, else fp16
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 128
//   kTileM              queries of a tile: 128 with kHeadDimQk up to 64, else 64. A block has 128 keys.
//   kStages             tiles in flight
//   kMaskRight, kMaskLeft (bool)   the window is bounded on that side
//   kGroupMode, kSoftCap, kBias, kAlibi, kDropout, kDbias, kDalibi (bool)
//   kDeterministic (bool)   blocks add to dq in a fixed order
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), a grid of min(work_items, SMs) blocks.
//   row_tiles = ceil(seqlen_k / 128); work_items = batch * heads_kv * row_tiles; section_heads counts heads of keys.
// Tensor maps (16-bit elements, 128-byte swizzle, zero fill), dimensions innermost first; group mode has batch = 1 and the
// total rows:
//   q  {head_dim_qk, seqlen_q, heads_q, batch}, dout {head_dim_v, seqlen_q, heads_q, batch}, box {64, kTileM, 1, 1}
//   k  {head_dim_qk, seqlen_k, heads_kv, batch}, v {head_dim_v, ...}, box {64, 128, 1, 1}
// Pointers and strides are multiples of 16 bytes; a length of 0 is encoded as 1.
#pragma once

#include "consumer.cuh"
#include "producer.cuh"
#include "writer.cuh"

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_dq_dk_dv
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaBackwardMaps maps, const __grid_constant__ TsCudaAttentionBackwardArgs args) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];  // as the swizzle pattern wants it
  ts::Shared shared{ts::smem_address(dynamic_shared)};
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == 0) {
    ts::shrink_registers<24>();
    if (threadIdx.x == 0) {
      ts::Producer producer{shared, maps, args};
      producer.run();
    }
    if constexpr (ts::cfg::kDeterministic) {
      const int warp = threadIdx.x / 32;
      if (threadIdx.x % 32 == 0 && warp >= 1 && warp <= ts::kWarpgroups) ts::write_dq(shared, warp - 1);
    }
  } else {
    ts::grow_registers<240>();
    ts::Consumer consumer{shared, args, warpgroup - 1};
    consumer.run();
  }
}
