// How a step of an operand gets to shared memory, where it lies as a GEMM's does (gemm/mma_sm80/layout.cuh): element
// by element, or 16 or 8 bytes of neighbouring channels at a time. What is outside the image, or behind the last number of
// either axis, is zero and is not read.
#pragma once

#include "../../gemm/mma_sm80/multiply.cuh"
#include "../axis.cuh"
#include "../read.cuh"

namespace ts::conv {

using namespace ts::gemm;

// Layout: gemm's OperandLayout. `Rows` and `Depth` are the axes of the tile's rows (of b: columns) and of the sum.
// kInImage: an element's pixel is the sum of both axes', and may lie outside of `size`.
template <class Layout, int kTile, class Rows, class Depth, bool kInImage>
struct Gather {
  static constexpr bool kChunks = Layout::kWay == Way::chunks;
  // Threads side by side have the tile's rows, or its chunks; each has one of the other axis, or several.
  static constexpr int kChunk = cfg::kRead;
  static constexpr bool kChunksOfRows = kChunks && Layout::kTransposed;
  static constexpr int kAlong = !kChunks ? kTile : kChunksOfRows ? kTile / kChunk : kTileK / kChunk;
  static constexpr int kAcross = !kChunks ? kTileK : kChunksOfRows ? kTileK : kTile;
  static_assert(kThreads % kAlong == 0, "a thread keeps its place along rows");
  static constexpr int kTeams = kThreads / kAlong;  // threads that share a place along rows
  static constexpr int kItems = ceil_div(kAcross, kTeams);
  static constexpr bool kWhole = kAcross % kTeams == 0;
  static_assert(kChunks || kWhole, "elements are dealt out evenly");

  // Of what a thread copies in each step: the rows are the same ones, the depth goes on.
  static constexpr int kRowPlaces = kChunks && !kChunksOfRows ? kItems : 1;
  static constexpr int kDepthPlaces = kChunksOfRows ? kItems : 1;

  const char* base;
  Depth depth;
  int size[3];
  Where rows[kRowPlaces];
  Number next[kDepthPlaces];
  Number stride;  // from one step's depth to the next; of elements, from a thread's last one

  static TS_DEVICE int along() { return static_cast<int>(threadIdx.x) % kAlong; }
  static TS_DEVICE int team() { return static_cast<int>(threadIdx.x) / kAlong; }

  // row_place(i) says where row i of the tile is.
  template <class RowPlace>
  TS_DEVICE void start(const char* from, const Depth& of_sum, const int (&image)[3], int step, RowPlace row_place) {
    base = from;
    depth = of_sum;
    const i64 first = static_cast<i64>(step) * kTileK;
#pragma unroll
    for (int d = 0; d < 3; ++d) size[d] = image[d];
#pragma unroll
    for (int i = 0; i < kRowPlaces; ++i)
      rows[i] = row_place(kChunksOfRows ? along() * kChunk : kChunks ? imin(team() + i * kTeams, kTile - 1) : along());
#pragma unroll
    for (int i = 0; i < kDepthPlaces; ++i) {
      const int at = kChunksOfRows ? team() + i * kTeams : kChunks ? along() * kChunk : team() * kItems;
      next[i] = Number::of(first + at, depth.size);
    }
    stride = Number::of(kChunks ? kTileK : kTileK - kItems, depth.size);
  }

  // Where the element of both places is, or false.
  TS_DEVICE bool find(const Where& row, const Where& at, const char*& from) const {
    bool there = row.there && at.there;
    if constexpr (kInImage) {
#pragma unroll
      for (int d = 0; d < 3; ++d)
        there = there && static_cast<u32>(row.pixel[d] + at.pixel[d]) < static_cast<u32>(size[d]);
    }
    from = there ? base + (row.offset + at.offset) * kElementBytes : base;
    return there;
  }

  // Copies a step to `to` and goes on to the next.
  TS_DEVICE void copy(u32 to) {
    if constexpr (kChunks) {
      Where at = depth.at(next[0]);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int across = team() + i * kTeams;
        if constexpr (kChunksOfRows) {
          if (i > 0) at = depth.at(next[i]);
        }
        const char* from;
        const bool there = find(rows[kChunksOfRows ? 0 : i], at, from);
        if (kWhole || across < kAcross) copy_read<kChunk * kElementBytes>(to + across * Layout::kPitch + along() * kChunk * kElementBytes, from, there);
      }
#pragma unroll
      for (int i = 0; i < kDepthPlaces; ++i) next[i].add(stride, depth.size);
    } else {
      constexpr int kTogether = kItems < 8 ? kItems : 8;  // under way, where they pass through registers
      const Number one{{0, 0, 0, 1}};
      for (int i = 0; i < kItems; i += kTogether) {
        u32 bits[kTogether];
#pragma unroll
        for (int e = 0; e < kTogether; ++e) {
          const int k = team() * kItems + i + e;
          const char* from;
          const bool there = find(rows[0], depth.at(next[0]), from);
          next[0].add(one, depth.size);
          const u32 place = to + (Layout::kTransposed ? k : along()) * Layout::kPitch +
                            (Layout::kTransposed ? along() : k) * kElementBytes;
          if constexpr (kElementBytes == 4)
            copy_async_word(place, from, there);
          else
            bits[e] = there ? load_bits<kElementBytes>(from) : 0;
        }
        if constexpr (kElementBytes <= 2) {
#pragma unroll
          for (int e = 0; e < kTogether; ++e) {
            const int k = team() * kItems + i + e;
            const u32 place = to + (Layout::kTransposed ? k : along()) * Layout::kPitch +
                              (Layout::kTransposed ? along() : k) * kElementBytes;
            if constexpr (kElementBytes == 1)
              asm volatile("st.shared.b8 [%0], %1;" ::"r"(place), "r"(bits[e]) : "memory");
            else
              asm volatile("{ .reg .b16 x; cvt.u16.u32 x, %1; st.shared.b16 [%0], x; }" ::"r"(place), "r"(bits[e])
                           : "memory");
          }
        }
      }
      next[0].add(stride, depth.size);
    }
  }
};

}  // namespace ts::conv
