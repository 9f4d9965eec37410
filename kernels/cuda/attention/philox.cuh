// The words of the dropout stream, dealt out to the lanes of a warp.
#pragma once

#include "../common/common.cuh"

#include "../../gpu/attention/philox.h"

namespace ts {

// Word j of lane q becomes word q of lane j, within every four lanes.
TS_DEVICE void quad_transpose(u32 (&w)[4]) {
  const u32 lane = threadIdx.x & 3;
  const bool odd = lane & 1;
  const bool upper = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const u32 received = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
    w[i] = odd ? received : w[i];
    w[i + 1] = odd ? w[i + 1] : received;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 received = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + 2], 2);
    w[i] = upper ? received : w[i];
    w[i + 2] = upper ? w[i + 2] : received;
  }
}

}  // namespace ts
