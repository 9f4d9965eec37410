// Overlapping launches: a kernel's start with the end of the one before it (programmatic stream serialisation, sm_90).
#pragma once

#include "../common/common.cuh"

namespace ts::gemm {

// A kernel launched to overlap waits here before it touches the results of the one before. Elsewhere it does nothing.
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

}  // namespace ts::gemm
