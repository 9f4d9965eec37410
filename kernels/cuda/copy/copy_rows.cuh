// Copies rows of heads that begin at any byte to rows that begin at any byte, and fills those up with zeros: to rows of
// whole 16 bytes, which the copy engine takes, and back. What it reads lies within the rows, byte for byte, and it
// writes nothing else.
//
// A warp copies TS_COPY_LINES rows at a time, each lane a word of each: what it writes is aligned, what it reads is two
// words shifted.
//
// Launch: TS_COPY_THREADS threads a block, any number of blocks, no shared memory. It may overlap the kernel before it,
// and the next one may overlap it.
#pragma once

#include "../common/launch.cuh"
#include "rows_abi.h"

namespace ts::copy {

// The word at `at`, an aligned address, as far as it lies within a row; zeros beyond.
TS_DEVICE u32 word_of_row(const char* at, const char* begin, const char* end) {
  if (at >= begin && at + 4 <= end) return *reinterpret_cast<const u32*>(at);
  u32 word = 0;
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (at + b >= begin && at + b < end)
      word |= static_cast<u32>(*reinterpret_cast<const unsigned char*>(at + b)) << 8 * b;
  return word;
}

// Four bytes from any address on.
TS_DEVICE u32 bytes_of_row(const char* at, const char* begin, const char* end) {
  const u32 shift = static_cast<u32>(reinterpret_cast<u64>(at)) % 4;
  const char* const first = at - shift;
  const u32 low = word_of_row(first, begin, end);
  return shift == 0 ? low : __funnelshift_r(low, word_of_row(first + 4, begin, end), 8 * shift);
}

TS_DEVICE void store_in_row(char* at, u32 word, const char* begin, const char* end) {
  if (at >= begin && at + 4 <= end) {
    *reinterpret_cast<u32*>(at) = word;
    return;
  }
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (at + b >= begin && at + b < end) at[b] = static_cast<char>(word >> 8 * b);
}

TS_DEVICE void copy_lines(const TsRowsOfHeads& t, u32 first, u32 lane) {
  const char* from[TS_COPY_LINES];
  char* to[TS_COPY_LINES];
#pragma unroll
  for (int i = 0; i < TS_COPY_LINES; ++i) {
    const u32 line = first + i, member = line / t.rows, row = line % t.rows;
    const u32 batch = member / t.heads, head = member % t.heads;
    from[i] = static_cast<const char*>(t.from) + batch * t.from_batch + head * t.from_head + row * t.from_row;
    to[i] = static_cast<char*>(t.to) + batch * t.to_batch + head * t.to_head + row * t.to_row;
  }
  // A row has its bytes in so many aligned words, wherever it begins.
  const int words = (t.to_bytes + 6) / 4;
  for (int word = lane; word < words; word += 32) {
    u32 values[TS_COPY_LINES];
#pragma unroll
    for (int i = 0; i < TS_COPY_LINES; ++i) {
      const int skew = static_cast<int>(reinterpret_cast<u64>(to[i]) % 4);
      values[i] = first + i < t.lines ? bytes_of_row(from[i] + (4 * word - skew), from[i], from[i] + t.from_bytes) : 0;
    }
#pragma unroll
    for (int i = 0; i < TS_COPY_LINES; ++i) {
      const int skew = static_cast<int>(reinterpret_cast<u64>(to[i]) % 4);
      if (first + i < t.lines) store_in_row(to[i] + (4 * word - skew), values[i], to[i], to[i] + t.to_bytes);
    }
  }
}

}  // namespace ts::copy

#ifndef TS_ENTRY
#define TS_ENTRY ts_copy_rows
#endif

extern "C" __global__ void __launch_bounds__(TS_COPY_THREADS) TS_ENTRY(const __grid_constant__ TsCopyRowsArgs args) {
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const ts::u32 warps = gridDim.x * (TS_COPY_THREADS / 32), lane = threadIdx.x % 32;
  const ts::u32 warp = blockIdx.x * (TS_COPY_THREADS / 32) + threadIdx.x / 32;
  for (int tensor = 0; tensor < TS_COPY_TENSORS; ++tensor) {
    const TsRowsOfHeads& t = args.tensors[tensor];
    const ts::u32 lines = t.lines;
    for (ts::u32 line = warp * TS_COPY_LINES; line < lines; line += warps * TS_COPY_LINES)
      ts::copy::copy_lines(t, line, lane);
  }
}
