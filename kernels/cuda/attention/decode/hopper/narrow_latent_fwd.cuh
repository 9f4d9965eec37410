// Attention forward on latent rows of 8 bits for Hopper (sm_90a): what latent_fwd.cuh computes, with products whose rows
// are keys and values. There rows of the cache are operands in shared memory, and of 8 bits would have to be written there
// once more, widened; here they become operands in registers.
//
// Configuration and launch: as there, but
//   kTileN     64
//   kStages    1: rows come in units of 32 keys (narrow_layout.cuh)
//   kLateWait  false
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "narrow_consumer.cuh"
#include "narrow_producer.cuh"

#include "../parts_join.cuh"

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

#include "../found_join.cuh"

extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaKeyMaps maps, const __grid_constant__ TsCudaDecodeArgs args) {
  // Aligned to the pattern of the swizzle. There is no room to do so here.
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const ts::u32 shared = ts::smem_address(dynamic_shared);
  if (args.join == TS_DECODE_JOINS) return ts::PartsJoin(args, shared).run();
  if (shared % 1024 != 0) __trap();
  if (threadIdx.x == 0) ts::SharedMap{shared}.init_barriers();
  ts::clear_ends_of_rows(shared);
  __syncthreads();
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == ts::kHalves) {
    ts::shrink_registers<ts::kProducerRegisters>();
    ts::NarrowProducer(args, shared).run();
    if (ts::kClusters && args.cluster > 1) {  // consumers join, and all of a cluster meet
      __syncwarp();
      ts::clusters_meet();
      ts::clusters_meet();
    }
  } else {
    ts::grow_registers<ts::kConsumerRegisters>();
    ts::NarrowConsumer consumer(args, shared, warpgroup);
    consumer.run();
  }
}
