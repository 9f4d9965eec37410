// What the blocks of the warp-specialised kernels do: one warpgroup produces, the others consume.
#pragma once

#include "producer.cuh"
#include "transpose.cuh"

namespace ts::gemm {

// `more` are what a producer other than GEMM's has beside GEMM's members.
template <class Consumer, class OperandProducer = Producer, class... More>
TS_DEVICE void run_roles(u32 dynamic_shared, const TsCudaGemmMaps& maps, const TsCudaGemmArgs& args,
                         const More&... more) {
  Shared shared{(dynamic_shared + 1023u) & ~1023u};
  const u32 rank = rank_of_block();
  if (!args.late_launch_dependents) let_next_kernel_start();
  if (threadIdx.x == 0) shared.init_barriers();
  if constexpr (kClusterBlocks > 1)
    cluster_sync_relaxed();
  else
    __syncthreads();
  const int warpgroup = static_cast<int>(uniform(threadIdx.x / 128));
  if (warpgroup == 0) {
    shrink_registers<cfg::kProducerRegisters>();
    if (threadIdx.x == 0) {
      OperandProducer producer{Producer{shared, maps, rank}, more...};
      producer.prefetch_maps(args);
      wait_for_previous_kernel();
      producer.run(args);
      if constexpr (kCluster > 1) producer.wait_until_freed();
    } else if (kTransposes && threadIdx.x >= 32) {
      wait_for_previous_kernel();  // it may write the groups' ends
      Transposer transposer{shared, rank};
      transposer.run(args, threadIdx.x / 32 - 1);
    }
  } else {
    grow_registers<kConsumerRegisters>();
    wait_for_previous_kernel();
    Consumer consumer{shared, maps, args, warpgroup - 1, rank};
    consumer.run();
    if (args.late_launch_dependents) {  // when the last of the warpgroups is done
      named_barrier_sync(1 + cfg::kWarpgroups, 128 * cfg::kWarpgroups);
      let_next_kernel_start();
    }
    if (cfg::kStoreTmaBox && threadIdx.x % 128 == 0) store_wait_done();
  }
}

}  // namespace ts::gemm
