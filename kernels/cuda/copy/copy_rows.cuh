// Copies rows of heads that begin at any element of 16 bits to rows that do, and fills those up with zeros: to rows of whole
// 16 bytes, which the copy engine takes, and back. What it reads lies within the rows, and it writes nothing else.
//
// A warp copies TS_COPY_LINES rows at a time, each lane a word or two of each, by elements of 16 bits: there is no branch between
// loads, and what it writes is aligned words but for a row's ends.
//
// Launch: TS_COPY_THREADS threads a block, any number of blocks, no shared memory. It may overlap the kernel before it,
// and the next one may overlap it.
#pragma once

#include "../common/launch.cuh"
#include "rows_abi.h"

namespace ts::copy {

// The element at `at` where it lies within a row; zero beyond.
TS_DEVICE u32 element_of_row(const char* at, const char* begin, const char* end) {
  return at >= begin && at < end ? *reinterpret_cast<const unsigned short*>(at) : 0;
}

TS_DEVICE void store_in_row(char* at, u32 low, u32 high, const char* begin, const char* end) {
  if (at >= begin && at + 4 <= end) {
    *reinterpret_cast<u32*>(at) = low | high << 16;
    return;
  }
  if (at >= begin && at < end) *reinterpret_cast<unsigned short*>(at) = static_cast<unsigned short>(low);
  if (at + 2 >= begin && at + 2 < end) *reinterpret_cast<unsigned short*>(at + 2) = static_cast<unsigned short>(high);
}

template <int kWords>
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
  const auto from_bytes = [&](int i) { return first + i < t.lines ? t.from_bytes : 0; };
  const auto to_bytes = [&](int i) { return first + i < t.lines ? t.to_bytes : 0; };
  // A row has its bytes in so many aligned words, wherever it begins.
  const int words = (t.to_bytes + 5) / 4;
  for (int begin = lane; begin < words; begin += 32 * kWords) {
    u32 low[TS_COPY_LINES][kWords], high[TS_COPY_LINES][kWords];
    const auto place = [&](int i, int word) {
      return 4 * (begin + 32 * word) - static_cast<int>(reinterpret_cast<u64>(to[i]) % 4);
    };
#pragma unroll
    for (int i = 0; i < TS_COPY_LINES; ++i) {
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        const char* const at = from[i] + place(i, word);
        low[i][word] = element_of_row(at, from[i], from[i] + from_bytes(i));
        high[i][word] = element_of_row(at + 2, from[i], from[i] + from_bytes(i));
      }
    }
#pragma unroll
    for (int i = 0; i < TS_COPY_LINES; ++i) {
#pragma unroll
      for (int word = 0; word < kWords; ++word)
        store_in_row(to[i] + place(i, word), low[i][word], high[i][word], to[i], to[i] + to_bytes(i));
    }
  }
}

// The rows of all tensors, one behind the other.
TS_DEVICE void copy_all(const TsCopyRowsArgs& args, u32 group, u32 lane) {
  for (int tensor = 0; tensor < TS_COPY_TENSORS; ++tensor) {
    const TsRowsOfHeads& t = args.tensors[tensor];
    const u32 groups = (t.lines + TS_COPY_LINES - 1) / TS_COPY_LINES;
    if (group < groups) {
      constexpr int kWarpBytes = 32 * 4 - 2;  // of a row, wherever it begins
      if (t.to_bytes <= kWarpBytes) return copy_lines<1>(t, group * TS_COPY_LINES, lane);
      return copy_lines<2>(t, group * TS_COPY_LINES, lane);
    }
    group -= groups;
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
  ts::u32 groups = 0;
  for (int tensor = 0; tensor < TS_COPY_TENSORS; ++tensor)
    groups += (args.tensors[tensor].lines + TS_COPY_LINES - 1) / TS_COPY_LINES;
  for (ts::u32 group = warp; group < groups; group += warps) ts::copy::copy_all(args, group, lane);
}
