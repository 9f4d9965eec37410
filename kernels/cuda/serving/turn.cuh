// A pair of elements turned by an angle, whose cosine and sine a rotary table has: the same roundings in all kernels.
#pragma once

#include "../common/common.cuh"

namespace ts {

TS_DEVICE void turn_pair(float& x, float& y, float cosine, float sine) {
  const float old = x;
  x = __fmaf_rn(old, cosine, -__fmul_rn(y, sine));
  y = __fmaf_rn(y, cosine, __fmul_rn(old, sine));
}

}  // namespace ts
