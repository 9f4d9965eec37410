// A barrier of all threads of a cluster of blocks, which may read each other's shared memory (sm_90 and up).
#pragma once

#include "common.cuh"

namespace ts {

// Waits for all threads of the cluster that have not ended, and sees what they have written. Chips without clusters have
// blocks of their own alone, and wait for nobody.
TS_DEVICE void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

}  // namespace ts
