// Attention forward on latent rows for Hopper (sm_90a): each row of the cache is a key, and its first elements the value
// of that key. What latent_fwd.cuh computes, with products of 64 rows, on operands that nothing but copies touches: a row
// lies in shared memory once, and is an operand of both products there, K-major for scores, N-major for values. Rows of 8
// bits are another file's (narrow_latent_fwd.cuh).
//
// Configuration, beside what attention_fwd.cuh defines but for kRowWarps and kKeyWarps:
//   kTileN                  keys that a warpgroup scores in a step, 32 or 64
//   kStages                 steps of twice as many keys in the ring
//   kHeadDimQk, kHeadDimV   multiples of 8; half of the values, rounded up to 64, has at most 256 columns
//   kLateWait (bool)        the second warpgroup scores before it waits for the first's probabilities (consumer.cuh)
// Launch: as there.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "consumer.cuh"
#include "producer.cuh"

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
  __syncthreads();
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == ts::kHalves) {
    ts::shrink_registers<ts::kProducerRegisters>();
    ts::Producer(maps.k, args, shared).run();
    ts::copy_wait();
    if (ts::kClusters && args.cluster > 1) {  // consumers join, and all of a cluster meet
      __syncwarp();
      ts::clusters_meet();
      ts::clusters_meet();
    }
  } else {
    ts::grow_registers<ts::kConsumerRegisters>();
    ts::Consumer consumer(args, shared, warpgroup);
    consumer.run();
  }
}
