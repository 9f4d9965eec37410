// Copies of boxes of pixels, and of filters, to shared memory.
#pragma once

#include "../read.cuh"
#include "tables.cuh"

namespace ts::conv {

constexpr int kReadBytes = cfg::kRead * kElementBytes;
static_assert(cfg::kRead == 8 || cfg::kRead == 4);

struct Copies {
  const Tables& tables;
  int first, read, together;  // the pixels of a box that a thread copies, and its part of each

  explicit TS_DEVICE Copies(const Tables& of) : tables(of) {
    const int reads = tables.read_channels() / cfg::kRead;
    together = kThreads / reads;
    first = static_cast<int>(threadIdx.x) / reads;
    read = static_cast<int>(threadIdx.x) - first * reads;
  }

  // What the box of `it` meets.
  TS_DEVICE void bring_pixels(const Item& it, const Phase& p, u32 to) const {
    if (first >= together) return;
    const TsCudaConvArgs& args = tables.args;
    const Boxes& boxes = tables.boxes;
    const TsConvStrides& s = kForward ? args.x_strides : args.y_strides;
    int at[3], size[3];
    bool inside = true;
    const char* base = static_cast<const char*>(kForward ? args.x : args.y) +
                       (it.image() * s.batch + it.group(boxes.sizes) * s.group) * kElementBytes;
    const char* begin = base + read * kReadBytes;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      at[d] = boxes.first_pixel(args, p, d, it.box(d) * boxes.sizes.results[d]);
      size[d] = static_cast<int>(kForward ? args.x_size[d] : args.y_size[d]);
      inside = inside && at[d] >= 0 && at[d] + boxes.sizes.pixels[d] <= size[d];
      begin += at[d] * s.spatial[d] * kElementBytes;
    }
    to += first * tables.pitch + read * kReadBytes;
    u32 from = tables.pixels() + kEntryBytes * first;
    const u32 end = tables.pixels() + kEntryBytes * boxes.all_pixels();
    if (inside) {
#pragma unroll 4
      for (; from < end; from += kEntryBytes * together) {
        u32 low, high;
        load_pair(low, high, from);
        copy_read<kReadBytes>(to, begin + joined(low, high), true);
        to += together * tables.pitch;
      }
      return;
    }
    for (; from < end; from += kEntryBytes * together) {
      u32 entry[4];
      load_shared(entry, from);
      const bool there = static_cast<u32>(at[0] + static_cast<int>(entry[2] >> 16)) < static_cast<u32>(size[0]) &&
                         static_cast<u32>(at[1] + static_cast<int>(entry[2] & 0xffff)) < static_cast<u32>(size[1]) &&
                         static_cast<u32>(at[2] + static_cast<int>(entry[3])) < static_cast<u32>(size[2]);
      copy_read<kReadBytes>(to, there ? begin + joined(entry[0], entry[1]) : base, there);
      to += together * tables.pitch;
    }
  }

  // The filters of the item's columns: of each unit and eight columns a matrix of 8 x 16 bytes. Rows are columns of the
  // result, along the octet's channels; of backward data they are the octet's channels, along columns.
  TS_DEVICE void bring_filters(const Item& it, const Phase& p) const {
    if constexpr (cfg::kAllPhases)
      read_filters();
    else
      copy_filters(it, p);
  }

 private:
  TS_DEVICE void copy_filters(const Item& it, const Phase& p) const {
    constexpr int kReads = 8 / cfg::kRead;
    const TsCudaConvArgs& args = tables.args;
    const TsConvStrides& s = args.w_strides;
    const TsCudaConvBoxes& sizes = tables.boxes.sizes;
    const int first_column = it.column(sizes), columns_left = tables.columns() - first_column;
    const char* const base =
        static_cast<const char*>(args.w) +
        (it.group(sizes) * s.group + first_column * (kForward ? s.batch : s.channel)) * kElementBytes;
    const int all = round_up(tables.units_of(p), 2) * cfg::kTileN * kReads;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < all; i += kThreads) {
      const int line = i / kReads, part = i % kReads, unit = line / cfg::kTileN, in_unit = line % cfg::kTileN;
      u32 entry[4];
      load_shared(entry, tables.units_of_taps() + kEntryBytes * unit);
      const int row = in_unit % 8, channel = kForward ? part * cfg::kRead : row;
      const int column = in_unit / 8 * 8 + (kForward ? row : part * cfg::kRead);
      const bool there = static_cast<int>(entry[2]) >= 0 &&
                         static_cast<int>(entry[3]) + channel < tables.read_channels() && column < columns_left;
      const i64 offset = (kForward ? column * s.batch + channel : channel * s.batch + column) * kElementBytes;
      copy_read<kReadBytes>(tables.filters() + line * kOctetBytes + part * kReadBytes,
                            there ? base + joined(entry[0], entry[1]) + offset : base, there);
    }
  }

  // Of all phases, element by element: rows of a matrix are columns of the result, along the octet's channels. A column
  // has zeros for the pixels that its phase does not meet.
  TS_DEVICE void read_filters() const {
    const TsConvStrides& s = tables.args.w_strides;
    const char* const base = static_cast<const char*>(tables.args.w);
    const int count = tables.boxes.all_taps() * tables.octets;
    for (int i = static_cast<int>(threadIdx.x); i < tables.units * cfg::kTileN; i += kThreads) {
      const int unit = i / cfg::kTileN, column = i % cfg::kTileN;
      u32 v[8] = {};
      if (unit < count && column < tables.columns()) {
        int phase[3], number[3];
        const int channel = tables.channel_of(column, phase), first = 8 * (unit % tables.octets);
        tables.pixel_of_unit(unit, number);
        const i64 at = tables.filter_at(phase, channel, number);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          if (at >= 0 && first + e < tables.read_channels())
            v[e] = load_bits<kElementBytes>(base + (at + (first + e) * s.batch) * kElementBytes);
        }
      }
      const u32 words[4] = {v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16};
      store_shared(tables.filters() + i * kOctetBytes, words);
    }
  }
};

}  // namespace ts::conv
