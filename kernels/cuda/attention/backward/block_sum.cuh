// A sum over a block of 256 threads, always in the same order.
#pragma once

#include "../../common/common.cuh"

namespace ts {

// All threads call it; thread 0 has the sum. It may be called again: what was read is not overwritten before.
TS_DEVICE float sum_of_block(float sum) {
  __shared__ float of_warps[8];
#pragma unroll
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += of_warps[i];
  return sum;
}

}  // namespace ts
