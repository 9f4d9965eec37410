// Convolution in groups of 2, 4, 8 or 16 channels to as many, forward and backward data, of 16-bit tensors, for sm_80 and
// newer. Eight neighbouring channels, an octet, are 16 bytes: half of what a tensor core multiplies a pixel with. Nothing
// is gathered: tiles of pixels lie in shared memory, and a tap is another address in them.
//
// A warp has two octets of a tile's results, which it takes in sixteens. For each tap one load brings both octets of
// sixteen pixels. Groups of 16 are one product of both; smaller groups two products of one octet. Groups of 2 and 4 share
// their octet: weights are zeros where a channel is of another group. Sixteen results whose sums are not finite are
// worked out anew by the definition, each group by itself, so that NaN stays in its group.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA, kTypeB            of x (backward data: of y) and of w: bf16 or f16; kTypeD: of the result
//   kChannels                 of x and of y in a group: 2, 4, 8 or 16
//   kRows, kColumns           results of a tile: 16 for each four warps, or a multiple
//   kPace                     as of conv/depthwise/data.cuh
//   kWarps, kStages, kBlocksPerSm; kWarps a multiple of 4
//   kColumnsFirst, kTilesApart (bool), false
//   kPairs (bool), true; kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for
// Groups are neighbours in all tensors but w, and have together a multiple of 8 channels; pixels begin at multiples of 16
// bytes. Taps of w are equally far apart.
//
// Launch: args.lanes is 32: a block has 64 channels. kThreads threads; kStepBytes + kStages * args.stage_bytes +
// kTapBytes for each tap of dynamic shared memory; a grid of args.splits * ceil(channels / 64) blocks.
#pragma once

#include "../../common/launch.cuh"
#include "results.cuh"

namespace ts::conv {

constexpr int kSixteens = kResults / 16 / kTeams;   // of results, of a warp
constexpr bool kGroupsShareOctets = cfg::kChannels < 8;

static_assert(kResults % (16 * kTeams) == 0, "results are taken in sixteens");

struct GroupedData {
  using Sums = float[kSixteens][2][4];  // by octet

  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE const TsConvStrides& out_strides() const { return kForward ? args.y_strides : args.x_strides; }
  TS_DEVICE unsigned char* stage_at(int stage) const { return shared + kStepBytes + stage * args.stage_bytes; }
  TS_DEVICE unsigned char* weights() const { return stage_at(cfg::kStages); }
  TS_DEVICE int all_channels() const { return static_cast<int>(args.groups) * cfg::kChannels; }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const u32 tile = smem_address(stage_at(stage));
    const int matrix = lane() / 8, octet = 2 * pair() + matrix / 2;
    int pixel[kSixteens];  // of the lane's row
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      const int result = (team() * kSixteens + m) * 16 + matrix % 2 * 8 + lane() % 8;
      pixel[m] = result / cfg::kColumns * s.row_pace * s.columns + result % cfg::kColumns * cfg::kPace;
    }
    for (int h = 0; h < s.taps_h; ++h) {
      for (int w = 0; w < s.taps_w; ++w) {
        u32 b[kWeightWords];
        GroupWeights::words_of(weights(), s.tap + h * s.tap_h + w * s.tap_w, b);
        const int tap = h * s.columns + w;
#pragma unroll
        for (int m = 0; m < kSixteens; ++m) {
          const int at = pixel[m] + tap;
          u32 a[4];
          load_matrices(a, octet_at(tile, at, octet));
          if constexpr (cfg::kChannels == 16) {
            multiply_add(sums[m][0], a[0], a[1], a[2], a[3], b[0], b[1]);
            multiply_add(sums[m][1], a[0], a[1], a[2], a[3], b[2], b[3]);
          } else {
#pragma unroll
            for (int o = 0; o < 2; ++o) multiply_add_octet(sums[m][o], a[2 * o], a[2 * o + 1], b[o]);
          }
        }
      }
    }
  }

  // A result as it is defined: the sum of a channel's own group.
  TS_DEVICE float sum_of(int image, const int (&at)[3], int channel) const {
    const TsConvStrides& strides = kForward ? args.x_strides : args.y_strides;
    const char* const from = static_cast<const char*>(kForward ? args.x : args.y) +
                             (image * strides.batch + channel / cfg::kChannels * cfg::kChannels) * kElementBytes;
    const GroupWeights filters(args, 0);
    const int taps = static_cast<int>(args.filter[0] * args.filter[1] * args.filter[2]);
    float sum = 0.0f;
    for (int tap = 0; tap < taps; ++tap) {
      u32 rest = static_cast<u32>(tap);
      i64 pixel = 0;
      bool met = true;
      for (int d = 2; d >= 0; --d) {
        const int hop = split_off(rest, static_cast<int>(args.filter[d])) * static_cast<int>(args.dilation[d]);
        const int stride = static_cast<int>(args.stride[d]), pad = static_cast<int>(args.pad[d]);
        const int reached = kForward ? at[d] * stride - pad + hop : at[d] + pad - hop;
        const int place = kForward ? reached : reached / stride;
        met = met && reached >= 0 && place < pixels_along(args, d) && (kForward || reached % stride == 0);
        pixel += place * strides.spatial[d];
      }
      for (int i = 0; met && i < cfg::kChannels; i += 2) {
        float x[2], w[2];
        load_two<cfg::kTypeA>(x[0], x[1], reinterpret_cast<const unsigned char*>(from + (pixel + i) * kElementBytes));
        filters.two_of(tap, channel / cfg::kChannels * cfg::kChannels + i, channel, w[0], w[1]);
        sum = fmaf(x[1], w[1], fmaf(x[0], w[0], sum));
      }
    }
    return sum;
  }

  // A lane's results of eight rows.
  TS_DEVICE int result_of(int m, int r) const { return (team() * kSixteens + m) * 16 + 8 * r + lane() / 4; }

  TS_DEVICE void finish_eight(const Step& s, int result, float (&v)[8]) const {
    const TsConvStrides& strides = out_strides();
    const GroupResults results{args, first_channel};
    const i64 first = s.image * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                      s.at[2] * strides.spatial[2];
    const i64 row_step = s.apart[1] * strides.spatial[1], column_step = s.apart[2] * strides.spatial[2];
    const int row = result / cfg::kColumns, column = result % cfg::kColumns;
    const bool there = row < s.results_h && column < s.results_w;
    results.apply_epilogue(s, row, column, there, v);
    results.store(first + row * row_step + column * column_step, there, v);
  }

  TS_DEVICE void work_apart(const Step& s, int result) const {
    const int row = result / cfg::kColumns, column = result % cfg::kColumns;
    const int at[3] = {s.at[0], s.at[1] + row * s.apart[1], s.at[2] + column * s.apart[2]};
    const int channel = GroupResults{args, first_channel}.channel();
    float v[8] = {};
#pragma unroll 1
    for (int e = 0; e < 4; ++e) {
      const int own = channel + 8 * (e / 2) + e % 2;
      const bool there = row < s.results_h && column < s.results_w && own < all_channels();
      const float sum = there ? sum_of(s.image, at, own) : 0.0f;
#pragma unroll
      for (int i = 0; i < 4; ++i) v[4 * (i / 2) + i % 2] = i == e ? sum : v[4 * (i / 2) + i % 2];
    }
    finish_eight(s, result, v);
  }

  TS_DEVICE void finish(const Step& s, const Sums& sums) const {
    u32 apart = 0;  // sixteens whose groups are worked out by themselves
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      if constexpr (kGroupsShareOctets) {
        float nothing = 0.0f;
#pragma unroll
        for (int e = 0; e < 8; ++e) nothing = fmaf(sums[m][e / 4][e % 4], 0.0f, nothing);
        if (__any_sync(0xffffffffu, !(nothing == 0.0f))) {
          apart |= 1u << m;
          continue;
        }
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float v[8] = {};
#pragma unroll
        for (int e = 0; e < 4; ++e) v[4 * (e / 2) + e % 2] = sums[m][e / 2][2 * r + e % 2];
        finish_eight(s, result_of(m, r), v);
      }
    }
    if constexpr (kGroupsShareOctets) {
#pragma unroll 1
      for (int half = 0; apart >> half / 2 != 0; ++half)
        if (apart >> half / 2 & 1) work_apart(s, result_of(half / 2, half % 2));
    }
  }

  TS_DEVICE void run(int part) const {
    const TsConvStrides& strides = kForward ? args.x_strides : args.y_strides;
    const Pixels pixels{static_cast<const char*>(kForward ? args.x : args.y) + first_channel * kElementBytes, strides,
                        pixels_along(args, 1), pixels_along(args, 2), imin(all_channels() - first_channel, 2 * kLanes)};
    const Run run_of_tiles = Run::of(args, part);
    Sums sums;
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int number) { return plan_step(args, shape, run_of_tiles, {}, number); },
        [&](const Step& s, int stage) {
          copy_tile<true>(smem_address(stage_at(stage)), shape, pixels, s.image, s.slice, s.row, s.column, s.row_hop,
                          s.column_hop, s.rows, s.columns, s.rows, s.columns_met);
        },
        [&] { GroupWeights(args, first_channel).load(weights()); },
        [&](const Step& s, int stage) {
          if (s.first) {
#pragma unroll
            for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
              for (int e = 0; e < 8; ++e) sums[m][e / 4][e % 4] = 0.0f;
            }
          }
          if (s.rows > 0) multiply(s, stage, sums);
          if (s.last) finish(s, sums);
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const auto own = ts::conv::Share::of(static_cast<int>(args.groups) * ts::cfg::kChannels, 2 * ts::conv::kLanes);
  const ts::conv::GroupedData kernel{args, ts::conv::Shape::whole(args), own.first_channel, dynamic_shared};
  kernel.run(own.run);
}
