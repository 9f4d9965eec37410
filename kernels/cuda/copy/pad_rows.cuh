// Copies rows that begin at any byte to rows of whole 16 bytes, which the copy engine and asynchronous copies can read,
// and fills those up with zeros. What it reads lies within the rows, byte for byte.
//
// Launch: TS_PAD_THREADS threads a block, any number of blocks, no shared memory. It may overlap the kernel before it,
// and the next one may overlap it.
#pragma once

#include "../common/launch.cuh"
#include "abi.h"

namespace ts::copy {

// The bytes from `at` on, an aligned address, of those from `begin` to `end`; zeros for others.
TS_DEVICE u32 word_within(const char* at, const char* begin, const char* end) {
  if (at >= begin && at + 4 <= end) return *reinterpret_cast<const u32*>(at);
  u32 word = 0;
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (at + b >= begin && at + b < end) word |= static_cast<u32>(*reinterpret_cast<const unsigned char*>(at + b)) << 8 * b;
  return word;
}

TS_DEVICE void copy_chunk(const TsPadMatrix& m, u32 item) {
  const u32 line = item / m.chunks, chunk = item % m.chunks;
  const u32 member = line / m.rows, row = line % m.rows;
  const char* const begin = static_cast<const char*>(m.from) + member * m.from_batch_stride + row * m.from_stride;
  const char* const end = begin + m.row_bytes;
  const char* const from = begin + chunk * 16;
  const u32 shift = static_cast<u32>(reinterpret_cast<u64>(from)) % 4;
  const char* const first = from - shift;
  u32 words[5];
  if (first >= begin && first + 20 <= end) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = *reinterpret_cast<const u32*>(first + 4 * i);
  } else {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = word_within(first + 4 * i, begin, end);
  }
  uint4 out;
  out.x = __funnelshift_r(words[0], words[1], 8 * shift);
  out.y = __funnelshift_r(words[1], words[2], 8 * shift);
  out.z = __funnelshift_r(words[2], words[3], 8 * shift);
  out.w = __funnelshift_r(words[3], words[4], 8 * shift);
  char* const to = static_cast<char*>(m.to) + member * m.to_batch_stride + row * m.to_stride + chunk * 16;
  *reinterpret_cast<uint4*>(to) = out;
}

}  // namespace ts::copy

#ifndef TS_ENTRY
#define TS_ENTRY ts_pad_rows
#endif

extern "C" __global__ void __launch_bounds__(TS_PAD_THREADS) TS_ENTRY(const __grid_constant__ TsPadArgs args) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const ts::u32 first = args.matrices[0].items, all = first + args.matrices[1].items;
  for (ts::u32 item = blockIdx.x * TS_PAD_THREADS + threadIdx.x; item < all; item += gridDim.x * TS_PAD_THREADS) {
    if (item < first)
      ts::copy::copy_chunk(args.matrices[0], item);
    else
      ts::copy::copy_chunk(args.matrices[1], item - first);
  }
}
