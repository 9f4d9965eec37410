// Programmatic dependent launch (sm_90): a kernel starts while the preceding kernel of the stream ends.
#pragma once

#include "common.cuh"

namespace ts {

// Waits until the preceding kernel has ended and its results can be read. Without programmatic launch this does
// nothing.
TS_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
TS_DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ts
