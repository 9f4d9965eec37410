// Copies of a tensor's channels, for kernels that ask for whole sixteens of bytes: before them to rows that are filled up
// with zeros, behind them from such rows to the result.
//
// Configuration, in namespace ts::cfg: kWarps.
// Launch: 32 * kWarps threads; any grid.
#pragma once

#include "../../common/launch.cuh"
#include "abi.h"

namespace ts::conv {

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kTogether = 4;  // elements of a thread that are under way

// Where an element of the rows lies in the tensor, or -1 where it is none of the tensor's.
TS_DEVICE long long place_of(const TsCudaConvRowsArgs& args, u32 element) {
  const u32 row = element / args.padded, outer = row / args.size[0], c = outer / args.size[1];
  const int channel = static_cast<int>(element - row * args.padded), b = static_cast<int>(outer - c * args.size[1]);
  if (channel >= args.channels || b >= args.there) return -1;
  return (row - outer * args.size[0]) * args.step[0] + b * args.step[1] + c * args.step[2] + channel;
}

// Threads have neighbouring elements of the rows, whose neighbours in the tensor are neighbours too.
template <class Element>
TS_DEVICE void copy_channels(const TsCudaConvRowsArgs& args) {
  Element* const tensor = static_cast<Element*>(args.tensor);
  Element* const rows = static_cast<Element*>(args.rows);
  const u32 all = static_cast<u32>(args.size[0]) * args.size[1] * args.size[2] * args.padded;
  for (u32 first = blockIdx.x * kThreads * kTogether + threadIdx.x; first < all; first += gridDim.x * kThreads * kTogether) {
    Element values[kTogether] = {};
    long long places[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const u32 element = first + i * kThreads;
      places[i] = element < all ? place_of(args, element) : -1;
      if (places[i] >= 0) values[i] = args.back ? rows[element] : tensor[places[i]];
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const u32 element = first + i * kThreads;
      if (args.back) {
        if (places[i] >= 0) tensor[places[i]] = values[i];
      } else if (element < all) {
        rows[element] = values[i];
      }
    }
  }
}

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_rowwise
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads) TS_ENTRY(const __grid_constant__ TsCudaConvRowsArgs args) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  if (args.bytes == 2)
    ts::conv::copy_channels<unsigned short>(args);
  else
    ts::conv::copy_channels<unsigned>(args);
}
