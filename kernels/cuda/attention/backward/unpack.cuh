// Two packed elements of 16 bits as floats, the one at the lower address first.
#pragma once

#include "../../common/common.cuh"

namespace ts {

template <bool kBf16>
TS_DEVICE float2 unpack(u32 pair) {
  if constexpr (kBf16) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  } else {
    float2 r;
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
        : "=f"(r.x), "=f"(r.y)
        : "r"(pair));
    return r;
  }
}

}  // namespace ts
