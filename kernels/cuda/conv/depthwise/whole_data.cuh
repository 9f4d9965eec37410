// Depthwise convolution, forward and backward data, of 16-bit tensors, of images that a thread has whole in registers, for
// Hopper (sm_90a). As mapped_data.cuh, but taps that meet nothing but the border are not multiplied at all: of 7 x 7 pixels
// and taps 0.57 of them are left.
//
// A thread has two channels of an image and of its results, a warp 64 channels. Weights lie in shared memory as floats; a
// row of taps is loaded once for all rows of results.
//
// Configuration: as in data.cuh, with
//   kImages                   of a tile: kWarps
//   kRows, kColumns           pixels of an image, and results, at most
//   kTapRows, kTaps           of the filter: odd, with a border of half as many pixels on either side
//   kPace                     1
//   kStages                   at most 7
//   kTilesApart (bool), true
//
// Launch: args.lanes is 32; kThreads threads; kSharedBytes of dynamic shared memory; a grid of args.splits * ceil(groups /
// 64) blocks. The map's box is kRows x kColumns pixels of 64 channels of kImages images, not swizzled.
#pragma once

#include "../mapped.cuh"
#include "../store.cuh"
#include "results.cuh"

namespace ts::conv {

constexpr int kChannels = 64, kPixelBytes = 2 * kChannels, kImageBytes = cfg::kRows * cfg::kColumns * kPixelBytes;
constexpr int kPadH = cfg::kTapRows / 2, kPadW = cfg::kTaps / 2, kTapsInAll = cfg::kTapRows * cfg::kTaps;
constexpr int kTileAlignment = 128;
constexpr int kStageBytes = cfg::kImages * kImageBytes;
constexpr int kWeightOffset = cfg::kStages * kStageBytes, kStepOffset = kWeightOffset + kTapsInAll * kChannels * 4;
constexpr int kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
constexpr bool kPlain = cfg::kEpilogueLength == 0 && bytes_of(cfg::kTypeD) == 2;
static_assert(kElementBytes == 2 && cfg::kImages == cfg::kWarps && cfg::kPace == 1);
static_assert(cfg::kTapRows % 2 == 1 && cfg::kTaps % 2 == 1);

struct WholeDepthwise {
  using Image = float[cfg::kRows][cfg::kColumns][2];

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE int channel() const { return first_channel + 2 * lane(); }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }
  TS_DEVICE float* weights() const { return reinterpret_cast<float*>(shared + kWeightOffset); }

  // [tap][channel of the block], in the order in which taps meet pixels: of backward data the last one is first.
  TS_DEVICE void load_weights() const {
    constexpr int kBytes = bytes_of(cfg::kTypeB), kAll = kTapsInAll * kChannels, kOwn = ceil_div(kAll, kThreads);
    const TsConvStrides& s = args.w_strides;
    const i64 step = cfg::kTaps > 1 ? s.spatial[2] : s.spatial[1];
    const char* const from = static_cast<const char*>(args.w) + first_channel * s.group * kBytes;
    Pair<cfg::kTypeB> pairs[kOwn] = {};
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
      const int at = static_cast<int>(threadIdx.x) + e * kThreads, own = at % kChannels, tap = at / kChannels;
      if (at < kAll && first_channel + own < args.groups)
        pairs[e].words[0] = *reinterpret_cast<const unsigned short*>(
            from + (own * s.group + (kForward ? tap : kTapsInAll - 1 - tap) * step) * kBytes);
    }
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
      const int at = static_cast<int>(threadIdx.x) + e * kThreads;
      float value, unused;
      unpack<cfg::kTypeB>(pairs[e], value, unused);
      if (at < kAll) weights()[at] = value;
    }
  }

  TS_DEVICE void multiply(const unsigned char* from, Image& sums) const {
    Image pixels;
#pragma unroll
    for (int i = 0; i < cfg::kRows; ++i) {
#pragma unroll
      for (int e = 0; e < cfg::kColumns; ++e) {
        Pair<cfg::kTypeA> pair;
        pair.words[0] = *reinterpret_cast<const u32*>(from + (i * cfg::kColumns + e) * kPixelBytes);
        unpack<cfg::kTypeA>(pair, pixels[i][e][0], pixels[i][e][1]);
      }
    }
#pragma unroll
    for (int r = 0; r < cfg::kTapRows; ++r) {
#pragma unroll
      for (int k = 0; k < cfg::kTaps; ++k) {
        const float2 w = *reinterpret_cast<const float2*>(weights() + (r * cfg::kTaps + k) * kChannels + 2 * lane());
#pragma unroll
        for (int t = 0; t < cfg::kRows; ++t) {
#pragma unroll
          for (int q = 0; q < cfg::kColumns; ++q) {
            const int i = t + r - kPadH, e = q + k - kPadW;
            if (i < 0 || i >= cfg::kRows || e < 0 || e >= cfg::kColumns) continue;
            sums[t][q][0] = fmaf(w.x, pixels[i][e][0], sums[t][q][0]);
            sums[t][q][1] = fmaf(w.y, pixels[i][e][1], sums[t][q][1]);
          }
        }
      }
    }
  }

  TS_DEVICE void finish(Step s, const Image& sums) const {
    s.image += warp();
    if (s.image >= args.batch) return;
    if constexpr (kPlain) {
      const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
      char* const out = static_cast<char*>(args.out) + 2 * (s.image * strides.batch + s.at[0] * strides.spatial[0] + channel());
      const bool there = channel() < args.groups;
#pragma unroll
      for (int t = 0; t < cfg::kRows; ++t) {
#pragma unroll
        for (int q = 0; q < cfg::kColumns; ++q)
          store_4_bytes_if(there && t < s.results_h && q < s.results_w,
                           out + 2 * (t * strides.spatial[1] + q * strides.spatial[2]),
                           pack_pair<cfg::kTypeD>(sums[t][q][0], sums[t][q][1]).words[0]);
      }
    } else {
      finish_results(args, s, channel(), 0, 0, sums);
    }
  }

  TS_DEVICE void run(int part) const {
    const Run run_of_tiles = Run::of(args, part, cfg::kImages);
    run_mapped(
        reinterpret_cast<Step*>(shared + kStepOffset), smem_address(shared) + kBarrierOffset,
        [&](int number) {
          Step s = plan_step(args, shape, run_of_tiles, {}, number, cfg::kImages);
          s.rows = cfg::kRows;  // a slice beside the image is zeros
          return s;
        },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kStageBytes);
          bring(smem_address(shared) + stage * kStageBytes, maps.read, barrier(stage), first_channel, s.image, s.slice, 0,
                0);
        },
        [&] { load_weights(); },
        [&](const Step& s, int stage, auto release) {
          Image sums = {};
          multiply(shared + stage * kStageBytes + warp() * kImageBytes + lane() * 4, sums);
          release();
          finish(s, sums);
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_depthwise_whole
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const auto own = ts::conv::Share::of(static_cast<int>(args.groups), ts::conv::kChannels);
  const ts::conv::WholeDepthwise kernel{maps, args, ts::conv::Shape::whole(args), own.first_channel,
                                        ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared)};
  kernel.run(own.run);
}
