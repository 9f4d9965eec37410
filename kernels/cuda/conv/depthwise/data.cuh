// Depthwise convolution for sm_80 and newer, forward and backward data: groups of one channel to one, which lie along
// the lanes. The multiply-adds are fp32's: a tensor core would multiply with zeros mostly.
//
// A thread has two channels of kRows x kColumns results in registers. Each row of pixels is read once from shared memory,
// and goes with each of its taps to the result it meets; weights lie in shared memory as floats, because their number is
// the caller's.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA                    of x (backward data: of y); kTypeB: of w; kTypeD: of the result
//   kRows, kColumns           results of a thread; kColumns odd
//   kTaps                     taps of a filter's row that are multiplied at a time; the filter may have any number
//   kPace                     pixels between neighbouring results of a row: stride / gcd(stride, dilation), backward
//                             data 1
//   kWarps, kStages, kBlocksPerSm
//   kColumnsFirst, kTilesApart (bool), false
//   kPairs (bool), true; kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for
// Groups are neighbours in all tensors but w, a multiple of 16 bytes of them; pixels begin at multiples of 16 bytes.
// Taps of w are equally far apart.
//
// Launch: kThreads threads; kStepBytes + kStages * args.stage_bytes + weights of dynamic shared memory, weights being 8 *
// lanes bytes for each tap; a grid of args.splits * ceil(groups / (2 * args.lanes)) blocks.
#pragma once

#include "../../common/launch.cuh"
#include "results.cuh"
#include "stages.cuh"

namespace ts::conv {

struct DepthwiseData {
  using Sums = float[cfg::kRows][cfg::kColumns][2];

  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE unsigned char* stage_at(int stage) const { return shared + kStepBytes + stage * args.stage_bytes; }
  TS_DEVICE float* weights() const { return reinterpret_cast<float*>(stage_at(cfg::kStages)); }
  TS_DEVICE int channels() const { return imin(static_cast<int>(args.groups) - first_channel, 2 * shape.lanes); }

  // [tap][channel of the block]
  TS_DEVICE void load_weights() const {
    constexpr int kBytes = bytes_of(cfg::kTypeB);
    const TsConvStrides& s = args.w_strides;
    const i64 step = args.filter[2] > 1 ? s.spatial[2] : args.filter[1] > 1 ? s.spatial[1] : s.spatial[0];
    const int width = 2 * shape.lanes, log_width = 31 - __clz(width);
    const int all = static_cast<int>(args.filter[0] * args.filter[1] * args.filter[2]) * width;
    const char* const from = static_cast<const char*>(args.w) + first_channel * s.group * kBytes;
    constexpr int kTogether = 8;  // loads under way
    for (int i = static_cast<int>(threadIdx.x); i < all; i += kTogether * kThreads) {
      Pair<cfg::kTypeB> pairs[kTogether] = {};
#pragma unroll
      for (int e = 0; e < kTogether; ++e) {
        const int tap = (i + e * kThreads) >> log_width, channel = (i + e * kThreads) & (width - 1);
        if (i + e * kThreads < all && channel < channels())
          pairs[e].words[0] = load_bits<kBytes>(from + (channel * s.group + tap * step) * kBytes);
      }
#pragma unroll
      for (int e = 0; e < kTogether; ++e) {
        float value, unused;
        unpack<cfg::kTypeB>(pairs[e], value, unused);
        if (i + e * kThreads < all) weights()[i + e * kThreads] = value;
      }
    }
  }

  // Adds the products of row `i` of pixels with `kTaps` taps of each row of taps, or the first `taps` of them.
  // `taps_at`: the weights of the first row's first.
  template <bool kWhole>
  TS_DEVICE void add_row(const Step& s, int i, const Window& window, const float* taps_at, int taps, Sums& sums) const {
    const int width = 2 * shape.lanes;
#pragma unroll
    for (int t = 0; t < cfg::kRows; ++t) {
      const int h = i - t * s.row_pace;
      if (static_cast<u32>(h) >= static_cast<u32>(s.taps_h)) continue;
      const float* const row = taps_at + h * s.tap_h * width;
#pragma unroll
      for (int k = 0; k < cfg::kTaps; ++k) {
        if (!kWhole && k >= taps) break;
        const float2 w = *reinterpret_cast<const float2*>(row + k * s.tap_w * width);
#pragma unroll
        for (int q = 0; q < cfg::kColumns; ++q) {
          sums[t][q][0] = fmaf(w.x, window.low[q * cfg::kPace + k], sums[t][q][0]);
          sums[t][q][1] = fmaf(w.y, window.high[q * cfg::kPace + k], sums[t][q][1]);
        }
      }
    }
  }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const int width = 2 * shape.lanes;
    const unsigned char* row = stage_at(stage) + shape.strip() * cfg::kColumns * cfg::kPace * shape.pixel_bytes +
                               shape.lane() * 2 * kElementBytes;
    const float* const taps_at = weights() + s.tap * width + 2 * shape.lane();
    for (int i = 0; i < s.rows; ++i, row += s.columns * shape.pixel_bytes) {
      for (int w = 0; w < s.taps_w; w += cfg::kTaps) {
        Window window;
        window.load(row + w * shape.pixel_bytes, shape.pixel_bytes);
        const float* const from = taps_at + w * s.tap_w * width;
        if (s.taps_w - w >= cfg::kTaps)
          add_row<true>(s, i, window, from, cfg::kTaps, sums);
        else
          add_row<false>(s, i, window, from, s.taps_w - w, sums);
      }
    }
  }

  TS_DEVICE void finish(const Step& s, const Sums& sums) const {
    finish_results(args, s, first_channel + 2 * shape.lane(), 0, shape.strip() * cfg::kColumns, sums);
  }

  TS_DEVICE void run(int part) const {
    const TsConvStrides& strides = kForward ? args.x_strides : args.y_strides;
    const Pixels pixels{static_cast<const char*>(kForward ? args.x : args.y) + first_channel * kElementBytes, strides,
                        pixels_along(args, 1), pixels_along(args, 2), channels()};
    const Run run_of_tiles = Run::of(args, part);
    Sums sums;
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int number) { return plan_step(args, shape, run_of_tiles, {}, number); },
        [&](const Step& s, int stage) {
          copy_tile(smem_address(stage_at(stage)), shape, pixels, s.image, s.slice, s.row, s.column, s.row_hop,
                    s.column_hop, s.rows, s.columns, s.rows, s.columns_met);
        },
        [&] { load_weights(); },
        [&](const Step& s, int stage) {
          if (s.first) {
#pragma unroll
            for (int t = 0; t < cfg::kRows; ++t) {
#pragma unroll
              for (int q = 0; q < cfg::kColumns; ++q) sums[t][q][0] = sums[t][q][1] = 0.0f;
            }
          }
          multiply(s, stage, sums);
          if (s.last) finish(s, sums);
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_depthwise
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const auto own = ts::conv::Share::of(static_cast<int>(args.groups), 2 * args.lanes);
  const ts::conv::DepthwiseData kernel{args, ts::conv::Shape(args), own.first_channel, dynamic_shared};
  kernel.run(own.run);
}
