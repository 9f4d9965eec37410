// Attention forward for few queries and many keys on Hopper (sm_90a): what ../attention_fwd.cuh computes, by products of
// 64 rows, which leave room for large groups of query heads. A producer warpgroup copies keys and values into a ring that
// a second warpgroup multiplies from.
//
// Configuration, beside what ../attention_fwd.cuh defines but for kRowWarps and kKeyWarps:
//   kTileN                  keys of a step, 32, 64, 96 or 128
//   kStages                 of the ring
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 256
//   kCacheFp8, kCacheInt8, kPageScale, kLateWait (bool): false
// Launch: as there.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../../common/launch.cuh"
#include "key_consumer.cuh"
#include "key_producer.cuh"

#include "../parts_join.cuh"

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaKeyMaps maps, const __grid_constant__ TsCudaDecodeArgs args) {
  // Aligned to the pattern of the swizzle.
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const ts::u32 shared = ts::smem_address(dynamic_shared);
  if (args.join == TS_DECODE_JOINS) return ts::PartsJoin(args, shared).run();
  if (shared % 1024 != 0) __trap();
  if (threadIdx.x == 0) ts::SharedMap{shared}.init_barriers();
  if (threadIdx.x >= ts::kConsumerThreads) ts::Producer(maps, args, shared).prefetch();
  __syncthreads();
  if constexpr (!ts::kStartsEarly) {
    ts::wait_for_previous_kernel();
    if (ts::kUneven && args.end_tiles > 0) ts::let_next_kernel_start();
  }
  if (ts::uniform(threadIdx.x / 128) != 0) {
    ts::shrink_registers<ts::kProducerRegisters>();
    ts::Producer producer(maps, args, shared);
    producer.run();
    if constexpr (ts::kUneven) ts::let_next_kernel_start();
    ts::copy_wait();
  } else {
    ts::grow_registers<ts::kConsumerRegisters>();
    ts::Consumer consumer(args, shared);
    consumer.run();
  }
}
