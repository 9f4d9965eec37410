// What a block of the depthwise templates does, step by step.
//
// Results whose coordinates leave the same remainders by a number of phases meet taps that lie one pixel step apart, and
// neighbours among them meet pixels `pace` such steps apart:
//
//   pixel = from + hop * (pace * j + u)      of result first + step * j and tap tap + tap_step * u
//
// So dilation and the strides of backward data vanish, and the templates know no others. Forward and backward weight
// have dilation / gcd(stride, dilation) phases along a coordinate, backward data as many times its stride; a phase of
// backward data may have no taps.
//
// A tile is kRows by a block's columns of results of one phase, image and depth coordinate. Its taps along the depth
// coordinate are steps of their own, each of which brings a tile of pixels to shared memory. A block has a run of tiles
// and a block of channels.
#pragma once

#include "../../gemm/types.cuh"
#include "../abi.h"

namespace ts::conv {

using namespace ts::gemm;

constexpr bool kForward = cfg::kDirection == TS_CONV_FORWARD;
constexpr bool kWeight = cfg::kDirection == TS_CONV_BACKWARD_WEIGHT;
constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kElementBytes = bytes_of(cfg::kTypeA);

TS_DEVICE int lane() {
  return static_cast<int>(threadIdx.x) & 31;
}
TS_DEVICE int warp() {
  return static_cast<int>(threadIdx.x) / 32;
}

struct AxisPhase {
  int first, step, count;  // results
  int from, hop, pace;     // pixels
  int taps, tap, tap_step;
};

TS_DEVICE int results_along(const TsCudaConvArgs& args, int d) {
  return static_cast<int>(cfg::kDirection == TS_CONV_BACKWARD_DATA ? args.x_size[d] : args.y_size[d]);
}
TS_DEVICE int pixels_along(const TsCudaConvArgs& args, int d) {
  return static_cast<int>(cfg::kDirection == TS_CONV_BACKWARD_DATA ? args.y_size[d] : args.x_size[d]);
}
TS_DEVICE AxisPhase phase_along(const TsCudaConvArgs& args, int d, int number) {
  const int stride = static_cast<int>(args.stride[d]), dilation = static_cast<int>(args.dilation[d]);
  const int filter = static_cast<int>(args.filter[d]), pad = static_cast<int>(args.pad[d]);
  AxisPhase p;
  p.first = number;
  p.step = args.phases[d];  // where there are fewer results than phases, each has one
  p.count = ceil_div(results_along(args, d) - number, p.step);
  if constexpr (cfg::kDirection == TS_CONV_BACKWARD_DATA) {
    const int start = number % stride, last = imin(filter, args.tap_step[d]);
    int tap = 0, reached = start + pad;
    while (tap < last && reached % stride != 0) {
      ++tap;
      reached -= dilation;
    }
    p.taps = tap < last ? ceil_div(filter - tap, args.tap_step[d]) : 0;
    p.hop = args.pixel_step[d];
    p.pace = 1;
    // Later taps meet earlier pixels: they are taken from the last to the first.
    p.from = reached / stride + number / stride - p.hop * (p.taps - 1);
    p.tap = tap + args.tap_step[d] * (p.taps - 1);
    p.tap_step = -args.tap_step[d];
  } else {
    p.taps = filter;
    p.hop = dilation;
    p.pace = args.tap_step[d];
    p.from = number * stride - pad;
    p.tap = 0;
    p.tap_step = 1;
  }
  return p;
}

// What is along the channels and the columns of a block.
struct Shape {
  int lanes;   // of two channels each; a power of two
  int strips;  // of kColumns results each
  int pixel_bytes;

  explicit TS_DEVICE Shape(const TsCudaConvArgs& args)
      : lanes(args.lanes), strips(kThreads / args.lanes), pixel_bytes(2 * args.lanes * kElementBytes) {}
  // A tile's columns are those of all warps.
  static TS_DEVICE Shape whole(const TsCudaConvArgs& args) {
    Shape shape(args);
    shape.strips = 1;
    return shape;
  }
  TS_DEVICE int columns() const { return strips * cfg::kColumns; }
  TS_DEVICE int lane() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
  TS_DEVICE int strip() const { return static_cast<int>(threadIdx.x) / lanes; }
};

// What a block has of channels that are cut by so many a block, and of runs of tiles, each of which as many blocks share.
struct Share {
  int first_channel, run;

  static TS_DEVICE Share of(int channels, int of_block) {
    const int blocks = ceil_div(channels, of_block), run = static_cast<int>(blockIdx.x) / blocks;
    return {(static_cast<int>(blockIdx.x) - run * blocks) * of_block, run};
  }
};

struct Step {
  int wanted;         // 0: the run is over
  int first, last;    // of the tile
  int image, slice;   // image: the first; slice: the pixels' depth coordinate
  int row, column;    // of the first pixel in shared memory, which may lie outside
  int row_hop, column_hop;
  int row_pace;
  int rows, columns;  // in shared memory; no rows: nothing to multiply
  int columns_met;    // of them that some result meets
  int taps_h, taps_w;
  int tap, tap_h, tap_w;  // number of the first tap, and from one to the next
  int at[3], apart[3];    // the tile's first result, and from one result to the next
  int results_h, results_w;
};

// The part of the filter that backward weight has in registers begins at such a tap.
struct FilterPart {
  int d = 0, h = 0, w = 0;
};

// A block's run of tiles: neighbours, or as many as there are runs apart, so that all blocks are at neighbouring tiles at
// a time.
struct Run {
  int first_tile, steps, apart = 1;

  // Of tiles that have `together` images each.
  static TS_DEVICE Run of(const TsCudaConvArgs& args, int number, int together = 1) {
    i64 tiles = (args.batch + together - 1) / together;
    for (int d = 0; d < 3; ++d) tiles *= args.phases[d] * args.tiles[d];
    if (cfg::kTilesApart) {
      const i64 own = (tiles - number + args.splits - 1) / args.splits;
      return {number, static_cast<int>(own) * args.depth_steps, args.splits};
    }
    const int first = static_cast<int>(tiles * number / args.splits);
    return {first, (static_cast<int>(tiles * (number + 1) / args.splits) - first) * args.depth_steps};
  }
};

TS_DEVICE int split_off(u32& number, int size) {
  const u32 rest = number / static_cast<u32>(size);
  const int digit = static_cast<int>(number - rest * static_cast<u32>(size));
  number = rest;
  return digit;
}

TS_DEVICE Step plan_step(const TsCudaConvArgs& args, const Shape& shape, const Run& run, const FilterPart& part,
                         int number, int together = 1) {
  Step s = {};
  s.wanted = number < run.steps;
  if (!s.wanted) return s;
  const int of_run = number / args.depth_steps, depth_tap = number - of_run * args.depth_steps;
  u32 rest = static_cast<u32>(run.first_tile + of_run * run.apart);
  // Rows first: what two tiles share is still in a cache. Or columns: what two tiles leave of a row goes to memory at once.
  int row = 0, column = 0;
  if (!cfg::kColumnsFirst) row = split_off(rest, args.tiles[1]) * cfg::kRows;
  column = split_off(rest, args.tiles[2]) * shape.columns();
  if (cfg::kColumnsFirst) row = split_off(rest, args.tiles[1]) * cfg::kRows;
  const int slice = split_off(rest, args.tiles[0]);
  s.image = together * split_off(rest, ceil_div(static_cast<int>(args.batch), together));
  AxisPhase p[3];
  for (int d = 2; d >= 0; --d) p[d] = phase_along(args, d, args.phases[d] > 1 ? split_off(rest, args.phases[d]) : 0);
  const int results[3] = {slice, row, column};
  for (int d = 0; d < 3; ++d) {
    s.at[d] = p[d].first + p[d].step * results[d];
    s.apart[d] = p[d].step;
  }
  s.results_h = slice < p[0].count ? imin(p[1].count - row, cfg::kRows) : 0;
  s.results_w = imin(p[2].count - column, shape.columns());
  s.taps_h = p[1].taps;
  s.taps_w = p[2].taps;
  if constexpr (kWeight) {
    s.taps_h = imin(s.taps_h - part.h, cfg::kTapRows);
    s.taps_w = imin(s.taps_w - part.w, cfg::kTaps);
  }
  s.slice = p[0].from + p[0].hop * (p[0].pace * slice + (kWeight ? part.d : depth_tap));
  s.row_hop = p[1].hop;
  s.column_hop = p[2].hop;
  s.row_pace = p[1].pace;
  s.row = p[1].from + p[1].hop * (p[1].pace * row + part.h);
  s.column = p[2].from + p[2].hop * (p[2].pace * column + part.w);
  const bool any = depth_tap < p[0].taps && s.slice >= 0 && s.slice < pixels_along(args, 0) && s.taps_h > 0 &&
                   s.taps_w > 0 && s.results_h > 0 && s.results_w > 0;
  s.rows = any ? (s.results_h - 1) * p[1].pace + s.taps_h : 0;
  s.columns = (shape.columns() - 1) * cfg::kPace + imax(s.taps_w, 1);
  s.columns_met = (s.results_w - 1) * cfg::kPace + s.taps_w;
  s.tap = ((p[0].tap + p[0].tap_step * depth_tap) * static_cast<int>(args.filter[1]) + p[1].tap) *
              static_cast<int>(args.filter[2]) + p[2].tap;
  s.tap_h = p[1].tap_step * static_cast<int>(args.filter[2]);
  s.tap_w = p[2].tap_step;
  s.first = depth_tap == 0;
  s.last = depth_tap + 1 == args.depth_steps;
  return s;
}

}  // namespace ts::conv
