// Copies of tensors' channels, for kernels that ask for whole sixteens of bytes: before them to rows that are filled up
// with zeros, behind them from such rows to the result.
//
// Configuration, in namespace ts::cfg: kWarps.
// Launch: 32 * kWarps threads; any grid of one block or more for each tensor.
#pragma once

#include "../../common/launch.cuh"
#include "abi.h"

namespace ts::conv {

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kTogether = 2;  // sixteens of bytes of a thread that are under way

// Sixteen bytes of the rows.
template <class Element>
struct alignas(16) Chunk {
  static constexpr int kElements = 16 / sizeof(Element);
  Element of[kElements];
};

// Where a chunk of the rows begins in the tensor, and how many of its elements are the tensor's.
struct ChunkPlace {
  long long first;
  int there;

  TS_DEVICE ChunkPlace(const TsCudaConvRowsArgs& args, u32 chunk, int of_chunk) {
    const u32 row = chunk / (args.padded / of_chunk), outer = row / args.size[0], c = outer / args.size[1];
    const int channel = static_cast<int>(chunk - row * (args.padded / of_chunk)) * of_chunk;
    const int b = static_cast<int>(outer - c * args.size[1]);
    first = (row - outer * args.size[0]) * args.step[0] + b * args.step[1] + c * args.step[2] + channel;
    there = b < args.there ? args.channels - channel : 0;
  }
};

// Threads have neighbouring chunks of the rows, whose elements in the tensor are neighbours too.
template <class Element>
TS_DEVICE void copy_channels(const TsCudaConvRowsArgs& args, u32 block, u32 blocks) {
  constexpr int kElements = Chunk<Element>::kElements;
  Element* const tensor = static_cast<Element*>(args.tensor);
  Chunk<Element>* const rows = static_cast<Chunk<Element>*>(args.rows);
  const u32 all = static_cast<u32>(args.size[0]) * args.size[1] * args.size[2] * (args.padded / kElements);
  for (u32 first = block * kThreads * kTogether + threadIdx.x; first < all; first += blocks * kThreads * kTogether) {
    Chunk<Element> values[kTogether] = {};
    long long places[kTogether];
    int there[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const u32 chunk = first + i * kThreads;
      const ChunkPlace place(args, chunk < all ? chunk : first, kElements);
      places[i] = place.first;
      there[i] = chunk < all ? place.there : 0;
      if (args.back) {
        if (there[i] > 0) values[i] = rows[chunk];
        continue;
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e)
        if (e < there[i]) values[i].of[e] = tensor[places[i] + e];
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const u32 chunk = first + i * kThreads;
      if (!args.back) {
        if (chunk < all) rows[chunk] = values[i];
        continue;
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e)
        if (e < there[i]) tensor[places[i] + e] = values[i].of[e];
    }
  }
}

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_rowwise
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads) TS_ENTRY(const __grid_constant__ TsCudaConvRowsCall call) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const bool second = static_cast<int>(blockIdx.x) >= call.blocks;
  const TsCudaConvRowsArgs& args = call.tensors[second];
  const unsigned block = blockIdx.x - (second ? call.blocks : 0), blocks = second ? gridDim.x - call.blocks : call.blocks;
  if (args.bytes == 2)
    ts::conv::copy_channels<unsigned short>(args, block, blocks);
  else if (args.bytes == 4)
    ts::conv::copy_channels<unsigned>(args, block, blocks);
  else
    ts::conv::copy_channels<unsigned long long>(args, block, blocks);
}
