// The blocks of a cluster, which read each other's shared memory (sm_90): an item's pieces may be theirs, who then join
// them without a way through memory.
//
// Needs of a layout: kClusterPartOffset, where the block's partial lies in shared memory; 0: there is no place.
#pragma once

#include "../../common/cluster_sync.cuh"
#include "join.cuh"

namespace ts {

#if __CUDA_ARCH__ >= 900
constexpr bool kJoinsInCluster = kClusterPartOffset > 0;
#else
constexpr bool kJoinsInCluster = false;
#endif

// Whether the launch's clusters have the pieces of an item each.
TS_DEVICE bool has_clusters(const TsCudaDecodeArgs& args) {
  return kJoinsInCluster && args.cluster > 1;
}

// The same address in another block's shared memory, and what is loaded from there.
TS_DEVICE u32 address_in_block(u32 own, int block) {
  u32 there = own;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
#endif
  return there;
}
TS_DEVICE void load_part_in_cluster(float* r, u32 from) {
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "r"(from)
               : "memory");
#endif
}
TS_DEVICE State load_state_in_cluster(u32 from) {
  State state{};
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(state.base), "=f"(state.sum) : "r"(from) : "memory");
#endif
  return state;
}

}  // namespace ts
