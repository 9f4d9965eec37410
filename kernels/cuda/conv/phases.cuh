// What is multiplied with what. Forward and backward weight have one product. Backward data has one for each phase:
// pixels of x whose coordinates leave the same remainders by the strides meet the same taps.
//
// With pixel i = first + stride * j of x in a coordinate, tap t meets it from pixel o = (i + pad - t * dilation) / stride
// of y, where that is a whole number: for taps `tap` + tap_step * u, from pixels `from` - pixel_step * u + j.
#pragma once

#include "abi.h"
#include "axis.cuh"

namespace ts::conv {

struct Phase {
  int first[3];   // the first pixel of the result
  int pixels[3];  // how many there are, `stride` apart (forward: 1)
  int tap[3];     // the first tap, of
  int taps[3];    // so many; 0: the result is zeros
  int from[3];    // the pixel of y from which that tap meets the first pixel
};

TS_DEVICE int phases_of(const TsCudaConvArgs& args) {
  if (cfg::kDirection != TS_CONV_BACKWARD_DATA) return 1;
  int phases = 1;
#pragma unroll
  for (int d = 0; d < 3; ++d) phases *= imin(static_cast<int>(args.stride[d]), static_cast<int>(args.x_size[d]));
  return phases;
}

TS_DEVICE Phase phase_of(const TsCudaConvArgs& args, int number) {
  Phase p;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    const int filter = static_cast<int>(args.filter[d]);
    if constexpr (cfg::kDirection == TS_CONV_BACKWARD_DATA) {
      const int stride = static_cast<int>(args.stride[d]), size = static_cast<int>(args.x_size[d]);
      const int phases = imin(stride, size);
      p.first[d] = number % phases;
      number /= phases;
      p.pixels[d] = ceil_div(size - p.first[d], stride);
      const int dilation = static_cast<int>(args.dilation[d]), last = imin(filter, args.tap_step[d]);
      int reached = p.first[d] + static_cast<int>(args.pad[d]);
      p.tap[d] = 0;
      while (p.tap[d] < last && reached % stride != 0) {
        ++p.tap[d];
        reached -= dilation;
      }
      p.taps[d] = p.tap[d] < last ? ceil_div(filter - p.tap[d], args.tap_step[d]) : 0;
      p.from[d] = reached / stride;
    } else {
      p.first[d] = p.tap[d] = p.from[d] = 0;
      p.taps[d] = filter;
      p.pixels[d] = static_cast<int>(args.y_size[d]);
    }
  }
  return p;
}

// Pixels of the result's image in the largest phase, which is the first.
TS_DEVICE i64 pixels_of_phase(const Phase& p) {
  return static_cast<i64>(p.pixels[0]) * p.pixels[1] * p.pixels[2];
}

}  // namespace ts::conv
