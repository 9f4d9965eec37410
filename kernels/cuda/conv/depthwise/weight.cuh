// Depthwise convolution for sm_80 and newer, backward weight: groups of one channel to one, along the lanes.
//
// A thread has two channels of kTapRows x kTaps taps in registers, and adds up what kRows x kColumns pixels of y at a
// time multiply. A block has a part of the filter and a run of tiles; its strips' sums are added up in their order, and
// the runs' by a second launch, in theirs: the same call gives the same bits.
//
// Configuration: as in data.cuh, with
//   kDirection                TS_CONV_BACKWARD_WEIGHT
//   kTypeA                    of x and y; kTypeB the same
//   kTapRows, kTaps           the part of a filter; kRows x kColumns: pixels of y
//   kEpilogueLength           0
// Channels lie as data.cuh says, of x and y; w has any strides.
//
// Launch: once where args.splits is 1, else twice, with args.join 0 and then 1. kThreads threads; kStepBytes + max(kStages * args.stage_bytes, kTailBytes) of dynamic shared memory; a
// grid of args.splits * parts * blocks, with blocks = ceil(groups / (2 * args.lanes)) and parts = filter[0] *
// ceil(filter[1] / kTapRows) * ceil(filter[2] / kTaps). A partial has kTapRows * kTaps * 2 * lanes floats; there are
// `splits` of them for each of parts * blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../runs.cuh"
#include "stages.cuh"

namespace ts::conv {

constexpr int kTapsOfPart = cfg::kTapRows * cfg::kTaps;
constexpr int kTailBytes = kThreads * 2 * cfg::kTaps * 4;  // one row of taps of all threads
static_assert(kJoinBytes <= kTailBytes);

struct DepthwiseWeight {
  using Sums = float[cfg::kTapRows][cfg::kTaps][2];

  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  FilterPart part;
  int unit;  // the number of the block's channels and part
  unsigned char* shared;

  TS_DEVICE int channels() const { return imin(static_cast<int>(args.groups) - first_channel, 2 * shape.lanes); }
  TS_DEVICE unsigned char* stages() const { return shared + kStepBytes; }
  TS_DEVICE unsigned char* stage_at(int stage) const { return stages() + stage * args.stage_bytes; }
  // y's tile lies at the end of a stage.
  TS_DEVICE unsigned char* y_at(int stage) const {
    return stage_at(stage + 1) - cfg::kRows * shape.columns() * shape.pixel_bytes;
  }
  TS_DEVICE Pixels pixels_of(const void* data, const TsConvStrides& s, const long long (&size)[3]) const {
    return {static_cast<const char*>(data) + first_channel * kElementBytes, s, static_cast<int>(size[1]),
            static_cast<int>(size[2]), channels()};
  }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const int lane_bytes = shape.lane() * 2 * kElementBytes, strip = shape.strip() * cfg::kColumns;
    const unsigned char* y = y_at(stage) + strip * shape.pixel_bytes + lane_bytes;
    const unsigned char* x = stage_at(stage) + strip * cfg::kPace * shape.pixel_bytes + lane_bytes;
    const int x_row = s.columns * shape.pixel_bytes, rows = s.rows > 0 ? s.results_h : 0;
    for (int t = 0; t < rows; ++t) {
      float low[cfg::kColumns], high[cfg::kColumns];
#pragma unroll
      for (int q = 0; q < cfg::kColumns; ++q) load_two<cfg::kTypeA>(low[q], high[q], y + q * shape.pixel_bytes);
#pragma unroll
      for (int h = 0; h < cfg::kTapRows; ++h) {
        if (h >= s.taps_h) break;
        Window window;
        window.load(x + h * x_row, shape.pixel_bytes);
#pragma unroll
        for (int k = 0; k < cfg::kTaps; ++k) {
#pragma unroll
          for (int q = 0; q < cfg::kColumns; ++q) {
            sums[h][k][0] = fmaf(low[q], window.low[q * cfg::kPace + k], sums[h][k][0]);
            sums[h][k][1] = fmaf(high[q], window.high[q * cfg::kPace + k], sums[h][k][1]);
          }
        }
      }
      x += s.row_pace * x_row;
      y += shape.columns() * shape.pixel_bytes;
    }
  }

  // Sum i of the block: [tap of the part][channel].
  TS_DEVICE void store(int i, float value) const {
    const int width = 2 * shape.lanes, tap = i / width, channel = i - tap * width;
    const int h = part.h + tap / cfg::kTaps, w = part.w + tap % cfg::kTaps;
    if (channel >= channels() || h >= args.filter[1] || w >= args.filter[2]) return;
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const TsConvStrides& s = args.w_strides;
    store_bits<kBytes>(static_cast<char*>(args.out) + ((first_channel + channel) * s.group + part.d * s.spatial[0] +
                                                       h * s.spatial[1] + w * s.spatial[2]) * kBytes,
                       pack_pair<cfg::kTypeD>(value, value).words[0]);
  }

  TS_DEVICE int part_floats() const { return kTapsOfPart * 2 * shape.lanes; }
  TS_DEVICE float* partial(int run) const {
    return args.partials + (static_cast<i64>(unit) * args.splits + run) * part_floats();
  }

  // The strips' sums, a row of taps at a time; straight to the result where no other block has a part of it.
  TS_DEVICE void join_strips(int run, const Sums& sums) const {
    const int width = 2 * shape.lanes, all = cfg::kTaps * width;
    float* const places = reinterpret_cast<float*>(stages());  // [strip][tap][channel]
#pragma unroll
    for (int h = 0; h < cfg::kTapRows; ++h) {
      __syncthreads();
#pragma unroll
      for (int k = 0; k < cfg::kTaps; ++k)
        *reinterpret_cast<float2*>(places + (shape.strip() * cfg::kTaps + k) * width + 2 * shape.lane()) =
            make_float2(sums[h][k][0], sums[h][k][1]);
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < all; i += kThreads) {
        float sum = 0.0f;
        for (int strip = 0; strip < shape.strips; ++strip) sum += places[strip * all + i];
        if (args.splits == 1)
          store(h * all + i, sum);
        else
          partial(run)[h * all + i] = sum;
      }
    }
  }

  TS_DEVICE void run(int run) const {
    const Pixels x = pixels_of(args.x, args.x_strides, args.x_size);
    const Pixels y = pixels_of(args.y, args.y_strides, args.y_size);
    const Run run_of_tiles = Run::of(args, run);
    Sums sums = {};
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int number) { return plan_step(args, shape, run_of_tiles, part, number); },
        [&](const Step& s, int stage) {
          if (s.rows == 0) return;
          copy_tile(smem_address(stage_at(stage)), shape, x, s.image, s.slice, s.row, s.column, s.row_hop, s.column_hop,
                    s.rows, s.columns, s.rows, s.columns_met);
          copy_tile(smem_address(y_at(stage)), shape, y, s.image, s.at[0], s.at[1], s.at[2], s.apart[1], s.apart[2],
                    s.results_h, shape.columns(), s.results_h, s.results_w);
        },
        [] {}, [&](const Step& s, int stage) { multiply(s, stage, sums); });
    join_strips(run, sums);
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_depthwise_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const int width = 2 * args.lanes, blocks = ts::ceil_div(static_cast<int>(args.groups), width);
  const ts::conv::FilterParts parts(args);
  const auto of_unit = [&](int unit) {
    return ts::conv::DepthwiseWeight{args, ts::conv::Shape(args), unit % blocks * width, parts.at(unit / blocks), unit,
                                     dynamic_shared};
  };
  const int units = parts.count() * blocks, number = static_cast<int>(blockIdx.x);
  if (args.join) {
    ts::conv::join_runs(
        args, units, of_unit(0).part_floats(), of_unit(0).stages(), [](int) { return true; },
        [&](int unit, int quad, const float(&total)[4]) {
          for (int c = 0; c < 4; ++c) of_unit(unit).store(4 * quad + c, total[c]);
        });
  } else {
    // Blocks that read the same pixels follow each other.
    of_unit(number % units).run(number / units);
  }
}
