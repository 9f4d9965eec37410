// The kernel on latent rows of latent_fwd.cuh and narrow_latent_fwd.cuh. Before it is included, namespace ts has
//   clear_memory(shared)            what the block's threads write before any copy
//   produce(maps, args, shared)     what the producer warpgroup does
//   LatentConsumer                  (args, shared, warpgroup), whose run() is a consumer warpgroup's work
#pragma once

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
  ts::clear_memory(shared);
  __syncthreads();
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == ts::kHalves) {
    ts::shrink_registers<ts::kProducerRegisters>();
    ts::produce(maps, args, shared);
    if (ts::kClusters && args.cluster > 1) {  // consumers join, and all of a cluster meet
      __syncwarp();
      ts::clusters_meet();
      ts::clusters_meet();
    }
  } else {
    ts::grow_registers<ts::kConsumerRegisters>();
    ts::LatentConsumer consumer(args, shared, warpgroup);
    consumer.run();
  }
}
