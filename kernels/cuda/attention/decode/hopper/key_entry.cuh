// The kernels on keys and values of attention_fwd.cuh and narrow_fwd.cuh. Before it is included, ts::Producer is
//   (maps, args, shared)   what the producer warpgroup does, by prefetch() and run()
#pragma once

#include "key_consumer.cuh"

#include "../parts_join.cuh"

namespace ts {

// With kOfGrid every piece has a block of the grid, so no list is worked out; else blocks take pieces from one where
// sequences differ in length.
template <bool kOfGrid>
TS_DEVICE void run_block(const TsCudaKeyMaps& maps, const TsCudaDecodeArgs& args) {
  // Aligned to the pattern of the swizzle.
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const u32 shared = smem_address(dynamic_shared);
  if (args.join == TS_DECODE_JOINS) return PartsJoin(args, shared).run();
  if (shared % 1024 != 0) __trap();
  if (threadIdx.x == 0) SharedMap{shared}.init_barriers();
  if (threadIdx.x >= kConsumerThreads) Producer(maps, args, shared).prefetch();
  __syncthreads();
  if constexpr (kOfGrid || !kStartsEarly) {
    wait_for_previous_kernel();
    if (kUneven && args.end_tiles > 0) let_next_kernel_start();
  }
  if (uniform(threadIdx.x / 128) != 0) {
    shrink_registers<kProducerRegisters>();
    Producer producer(maps, args, shared);
    producer.template run<kOfGrid>();
    if constexpr (kUneven) let_next_kernel_start();
    copy_wait();
  } else {
    grow_registers<kConsumerRegisters>();
    Consumer consumer(args, shared);
    consumer.template run<kOfGrid>();
  }
}

}  // namespace ts

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaKeyMaps maps, const __grid_constant__ TsCudaDecodeArgs args) {
  ts::run_block<false>(maps, args);
}

// Of sequences in pages whose pieces all run at once. As a branch of the one entry it would cost the list's registers. The
// source says whether it has it, and its name.
#ifdef TS_GRID_ENTRY
extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_GRID_ENTRY(const __grid_constant__ TsCudaKeyMaps maps, const __grid_constant__ TsCudaDecodeArgs args) {
  ts::run_block<true>(maps, args);
}
#endif
