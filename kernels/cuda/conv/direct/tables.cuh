// What a block keeps in shared memory: boxes of pixels, places that were worked out once, and filters, in this order.
//
// An octet is eight neighbouring channels, 16 bytes; a unit is an octet of a tap. Products are 16 deep: two units. A
// pixel has an odd number of 16 bytes, so that eight neighbours are in different banks.
#pragma once

#include "../../gemm/mma.cuh"
#include "boxes.cuh"

namespace ts::conv {

using namespace ts::gemm;

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kElementBytes = 2, kOctetBytes = 16;
constexpr int kEntryBytes = 16, kRowBytes = 4;  // of a table
constexpr bool kForward = cfg::kDirection == TS_CONV_FORWARD;
static_assert(bytes_of(cfg::kTypeA) == kElementBytes && cfg::kDirection != TS_CONV_BACKWARD_WEIGHT);

TS_DEVICE int load_word(u32 address) {
  int word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// An offset in bytes, as tables have it.
TS_DEVICE i64 joined(u32 low, u32 high) {
  return static_cast<i64>(static_cast<u64>(high) << 32 | low);
}

// A result of a box by coordinate, a byte each; below zero where the box has none.
TS_DEVICE int coordinate(int row, int d) {
  return row < 0 ? 0 : row >> (16 - 8 * d) & 255;
}

struct Tables {
  const TsCudaConvArgs& args;
  Boxes boxes;
  u32 shared;
  int octets, units;  // of a pixel; of the most taps, made even
  int pitch;          // of pixels in shared memory

  TS_DEVICE Tables(const TsCudaConvArgs& call, u32 memory) : args(call), boxes{call.boxes}, shared(memory) {
    octets = ceil_div(read_channels(), 8);
    units = round_up(octets * boxes.all_taps(), 2);
    pitch = (octets | 1) * kOctetBytes;
  }

  TS_DEVICE int read_channels() const { return static_cast<int>(kForward ? args.c : args.k); }
  TS_DEVICE int columns() const {
    int columns = static_cast<int>(kForward ? args.k : args.c);
    if constexpr (cfg::kAllPhases) {
#pragma unroll
      for (int d = 0; d < 3; ++d) columns *= AllPhases::along(args, d);
    }
    return columns;
  }
  // A column's channel, and the phase that it is of, by coordinate.
  TS_DEVICE int channel_of(int column, int (&phase)[3]) const {
    const int c = static_cast<int>(args.c);
    int rest = column / c;
    const int channel = column - rest * c;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const int all = AllPhases::along(args, d), higher = rest / all;
      phase[d] = rest - higher * all;
      rest = higher;
    }
    return channel;
  }
  // The tap by which pixel `number` of y meets a phase along a coordinate; below zero, or beyond the last: none.
  TS_DEVICE int tap_of(int d, int phase, int number) const {
    return phase + static_cast<int>(args.pad[d]) - (AllPhases::earliest(args, d) + number) * static_cast<int>(args.stride[d]);
  }
  // In elements from the group's first one, of the column's first filter. Below zero: there is no such tap.
  TS_DEVICE i64 filter_at(const int (&phase)[3], int channel, const int (&number)[3]) const {
    i64 offset = channel * args.w_strides.channel;
    bool there = true;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const int tap = tap_of(d, phase[d], number[d]);
      there = there && static_cast<u32>(tap) < static_cast<u32>(args.filter[d]);
      offset += tap * args.w_strides.spatial[d];
    }
    return there ? offset : -1;
  }
  // Of a unit's octets of a pixel: the pixel's number by coordinate, of those that a result meets.
  TS_DEVICE void pixel_of_unit(int unit, int (&number)[3]) const {
    const int pixel = unit / octets, row = pixel / boxes.sizes.taps[2];
    number[0] = row / boxes.sizes.taps[1];
    number[1] = row - number[0] * boxes.sizes.taps[1];
    number[2] = pixel - row * boxes.sizes.taps[2];
  }
  TS_DEVICE int units_of(const Phase& p) const { return p.taps[0] * p.taps[1] * p.taps[2] * octets; }

  TS_DEVICE u32 stage_at(int stage) const { return shared + stage * args.stage_bytes; }
  TS_DEVICE u32 pixels() const { return stage_at(cfg::kStages); }
  TS_DEVICE u32 units_of_taps() const { return pixels() + kEntryBytes * boxes.all_pixels(); }
  TS_DEVICE u32 rows() const { return units_of_taps() + kEntryBytes * units; }
  TS_DEVICE u32 zeros() const { return rows() + kRowBytes * cfg::kTileM; }
  TS_DEVICE u32 columns_of_phases() const { return zeros() + kOctetBytes; }
  TS_DEVICE u32 filters() const { return columns_of_phases() + (cfg::kAllPhases ? kEntryBytes * cfg::kTileN : 0); }

  TS_DEVICE int row_at(int row) const { return load_word(rows() + kRowBytes * row); }

  // What no copy writes is zeros.
  TS_DEVICE void prepare() const {
    const u32 none[4] = {};
    if (read_channels() % 8 != 0)
      for (u32 to = shared + kOctetBytes * threadIdx.x; to < pixels(); to += kOctetBytes * kThreads)
        store_shared(to, none);
    if (threadIdx.x == 0) store_shared(zeros(), none);
    prepare_pixels();
    prepare_rows();
    if constexpr (cfg::kAllPhases) prepare_columns();
  }

  // Of a phase's units: bytes of the filters from their first tap and channel, where a unit begins from a result's first
  // pixel on (below zero: behind the last of an odd number), and its first channel.
  TS_DEVICE void prepare_units(const Phase& p) const {
    const TsConvStrides& s = args.w_strides;
    const int count = units_of(p);
    for (int unit = static_cast<int>(threadIdx.x); unit < round_up(count, 2); unit += kThreads) {
      const int number = unit / octets, octet = unit - number * octets, row = number / p.taps[2];
      const int tap[3] = {row / p.taps[1], row % p.taps[1], number - row * p.taps[2]};
      i64 offset = 8 * octet * (kForward ? s.channel : s.batch);
#pragma unroll
      for (int d = 0; d < 3; ++d) offset += (p.tap[d] + tap[d] * (kForward ? 1 : args.tap_step[d])) * s.spatial[d];
      offset *= kElementBytes;
      const int place = unit < count ? boxes.pixel_of_tap(p, tap) * pitch + octet * kOctetBytes : -1;
      const u32 entry[4] = {static_cast<u32>(offset), static_cast<u32>(offset >> 32), static_cast<u32>(place),
                            static_cast<u32>(8 * octet)};
      store_shared(units_of_taps() + kEntryBytes * unit, entry);
    }
  }

 private:
  // Of a box's pixels: bytes from its first one in memory, and coordinates.
  TS_DEVICE void prepare_pixels() const {
    const TsConvStrides& s = kForward ? args.x_strides : args.y_strides;
    const auto& [of_d, of_h, of_w] = boxes.sizes.pixels;
    for (int i = static_cast<int>(threadIdx.x); i < boxes.all_pixels(); i += kThreads) {
      const int row = i / of_w, w = i - row * of_w, d = row / of_h, h = row - d * of_h;
      const i64 bytes = (d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2]) * kElementBytes;
      const u32 entry[4] = {static_cast<u32>(bytes), static_cast<u32>(bytes >> 32), static_cast<u32>(d << 16 | h),
                            static_cast<u32>(w)};
      store_shared(pixels() + kEntryBytes * i, entry);
    }
  }
  // Of a column of all phases: elements in x from a result's first pixel, the phase by coordinate, a byte each, and the
  // channel; below zero: there is no such column.
  TS_DEVICE void prepare_columns() const {
    for (int column = static_cast<int>(threadIdx.x); column < cfg::kTileN; column += kThreads) {
      int phase[3];
      const int channel = channel_of(column, phase);
      i64 offset = channel * args.x_strides.channel;
#pragma unroll
      for (int d = 0; d < 3; ++d) offset += phase[d] * args.x_strides.spatial[d];
      const u32 entry[4] = {static_cast<u32>(offset), static_cast<u32>(offset >> 32),
                            static_cast<u32>(phase[0] << 16 | phase[1] << 8 | phase[2]),
                            static_cast<u32>(column < columns() ? channel : -1)};
      store_shared(columns_of_phases() + kEntryBytes * column, entry);
    }
  }
  TS_DEVICE void prepare_rows() const {
    const auto& [of_d, of_h, of_w] = boxes.sizes.results;
    for (int i = static_cast<int>(threadIdx.x); i < cfg::kTileM; i += kThreads) {
      const int row = i / of_w, d = row / of_h;
      const int found = d < of_d ? d << 16 | row - d * of_h << 8 | i - row * of_w : -1;
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(rows() + kRowBytes * i), "r"(found) : "memory");
    }
  }
};

}  // namespace ts::conv
