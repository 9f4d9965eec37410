// Tiles of images of 1 to 4 channels in shared memory, for tensor cores.
//
// A unit is what two neighbouring taps of a row meet from one result: two pixels of four channels, 16 bytes, half of the
// depth that a tensor core multiplies at a time. Channels that do not exist are zeros. Units of neighbouring results
// follow each other, in planes:
//
//   plane i            the pixels that results meet by taps 2i and 2i + 1. Taps `pace` on are the same plane's next unit,
//                      so there are as many planes as taps differ in the remainder by pace.
//   the last plane     of an odd number of taps, the last tap: its second pixel is zeros, so that nothing is multiplied
//                      that no tap meets
//
// A tap is an address then, whatever the filter's size, stride and dilation. Elements are read one by one: x has any
// strides.
#pragma once

#include "../../gemm/mma.cuh"
#include "../depthwise/stages.cuh"

namespace ts::conv {

constexpr int kUnitBytes = 16;
// Rows that a thread brings together: beside many sums, or addresses of single elements, registers are scarce.
constexpr int rows_together(int sums, bool others) {
  return sums > 32 || others ? 2 : 4;
}
constexpr int kResults = cfg::kRows * cfg::kColumns;
static_assert(kElementBytes == 2 && cfg::kColumns == 16, "sixteen results of a row are a tensor core's rows");

struct Windows {
  int pace;      // pixels between neighbouring results of a row
  int pairs;     // of taps of a row, without the last of an odd number
  int odd;       // whether there is one
  int paired;    // planes of pairs
  int width;     // units of a plane
  int filter_h;
  int units;     // that a result meets in a slice

  explicit TS_DEVICE Windows(const TsCudaConvArgs& args)
      : pace(args.tap_step[2]),
        pairs(static_cast<int>(args.filter[2]) / 2),
        odd(static_cast<int>(args.filter[2]) & 1),
        paired(imin(pairs, pace & 1 ? pace : pace / 2)),
        width(cfg::kColumns + (pairs > 0 ? 2 * (pairs - 1) / pace : 0)),
        filter_h(static_cast<int>(args.filter[1])),
        units(filter_h * (pairs + odd)) {}

  TS_DEVICE int planes() const { return paired + odd; }
  TS_DEVICE int row_units() const { return planes() * width; }
  // Units are multiplied two at a time.
  TS_DEVICE int units_of_slice() const { return (units + 1) & ~1; }

  // Of unit `number` that a result meets: how far from the result's own place, in bytes; below 0 where there is none.
  TS_DEVICE int place(int number) const {
    if (number >= units) return -1;
    const int of_row = pairs + odd, h = number / of_row, pair = number - h * of_row;
    const int plane = pair < pairs ? pair % paired : paired, along = pair < pairs ? 2 * pair / pace : 0;
    return (h * row_units() + plane * width + along) * kUnitBytes;
  }
  // From a row of results to the next, in bytes.
  TS_DEVICE int row_bytes(int row_pace) const { return row_pace * row_units() * kUnitBytes; }
};

// Brings `rows` rows of pixels of a step to shared memory; what lies outside the image becomes zeros. Rows are dealt out
// to the threads, so that a thread has the same unit of each of its rows; of kTogether rows the loads are under way.
template <int kTogether>
TS_DEVICE void bring_windows(const TsCudaConvArgs& args, const Windows& windows, const Step& s, int rows,
                             unsigned char* stage) {
  const TsConvStrides& strides = args.x_strides;
  const int row_units = windows.row_units(), together = imax(kThreads / row_units, 1);
  const int first_row = static_cast<int>(threadIdx.x) / row_units;
  if (first_row >= together && row_units <= kThreads) return;
  const int size_h = static_cast<int>(args.x_size[1]), size_w = static_cast<int>(args.x_size[2]);
  const int channels = static_cast<int>(args.c);
  const char* const image = static_cast<const char*>(args.x) +
                            (s.image * strides.batch + s.slice * strides.spatial[0]) * kElementBytes;
  const i64 channel_step = strides.channel * kElementBytes;
  const int start = row_units <= kThreads ? static_cast<int>(threadIdx.x) - first_row * row_units
                                          : static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int unit = start; unit < row_units; unit += kThreads) {
    const int plane = unit / windows.width, along = unit - plane * windows.width;
    const bool whole = plane < windows.paired;
    const int pixel = (whole ? 2 * plane % windows.pace : 2 * windows.pairs) + along * windows.pace;
    const int column = s.column + pixel * s.column_hop, next = column + s.column_hop;
    const bool there[2] = {static_cast<u32>(column) < static_cast<u32>(size_w),
                           whole && static_cast<u32>(next) < static_cast<u32>(size_w)};
    const char* const from = image + column * strides.spatial[2] * kElementBytes;
    const i64 pixel_step = static_cast<i64>(s.column_hop) * strides.spatial[2] * kElementBytes;
    const int begin = row_units <= kThreads ? first_row : 0;
#pragma unroll 1
    for (int i = begin; i < rows; i += kTogether * together) {
      u32 elements[kTogether][8];
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        const int row = s.row + (i + t * together) * s.row_hop;
        const bool wanted = i + t * together < rows && static_cast<u32>(row) < static_cast<u32>(size_h);
        const char* pixel_at = from + row * strides.spatial[1] * kElementBytes;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const char* at = pixel_at;
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            elements[t][4 * e + c] = wanted && there[e] && c < channels ? load_bits<kElementBytes>(at) : 0;
            at += channel_step;  // one after the other: to keep all four would take registers
          }
          pixel_at += pixel_step;
        }
      }
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        if (i + t * together >= rows) break;
        const u32(&v)[8] = elements[t];
        *reinterpret_cast<uint4*>(stage + ((i + t * together) * row_units + unit) * kUnitBytes) =
            make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
      }
    }
  }
}

}  // namespace ts::conv
