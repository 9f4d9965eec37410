// Convolution in groups of 4, 8 or 16 channels to as many, backward weight, of 16-bit tensors, for sm_80 and newer.
// Tiles of pixels of x and of y lie in shared memory, and a tap is another address in that of x, as in data.cuh. Sixteen
// pixels are the depth of a product; its columns are an octet of y's channels. Its rows are, of groups of 16, both octets
// of x at one tap; of smaller groups one octet of x at two taps. So no product is of two groups alone but for groups of
// 4, which share an octet: what two of them have together is not stored.
//
// A block has a part of the filter and a run of tiles, whose sums it leaves in memory. A second launch adds the runs up,
// in their order: the same call gives the same bits.
//
// Configuration: as in data.cuh, with
//   kDirection                TS_CONV_BACKWARD_WEIGHT
//   kTypeA                    of x and y; kTypeB the same
//   kRows, kColumns           pixels of y of a tile
//   kTapRows, kTaps           the part of a filter
//   kEpilogueLength           0
// Channels lie as data.cuh says, of x and y; w has any strides.
//
// Launch: twice, with args.join 0 and then 1. args.lanes is 32; kThreads threads; kStepBytes + max(kStages *
// args.stage_bytes, kTailBytes) of dynamic shared memory; a grid of args.splits * parts * blocks, with blocks =
// ceil(channels / 64) and parts as in depthwise/weight.cuh. There are `splits` partials of kPartFloats for each of parts
// * blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../runs.cuh"
#include "octets.cuh"

namespace ts::conv {

constexpr int kTapsOfPart = cfg::kTapRows * cfg::kTaps;
constexpr bool kBothOctets = cfg::kChannels == 16;
constexpr int kProducts = kBothOctets ? kTapsOfPart : ceil_div(kTapsOfPart, 2);  // of an octet of y
constexpr int kTeamThreads = 32 * kPairsOfOctets;
constexpr int kPartFloats = 2 * kProducts * 4 * kTeamThreads;
constexpr int kTailBytes = kTeams > 1 ? kPartFloats * 4 : kJoinBytes;

struct GroupedWeight {
  using Sums = float[2][kProducts][4];  // by octet of y

  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  FilterPart part;
  int unit;  // the number of the block's channels and part
  unsigned char* shared;

  TS_DEVICE unsigned char* stage_at(int stage) const { return shared + kStepBytes + stage * args.stage_bytes; }
  // y's tile lies at the end of a stage.
  TS_DEVICE unsigned char* y_at(int stage) const { return stage_at(stage + 1) - kResults * 128; }
  TS_DEVICE int all_channels() const { return static_cast<int>(args.groups) * cfg::kChannels; }
  TS_DEVICE Pixels pixels_of(const void* data, const TsConvStrides& s, const long long (&size)[3]) const {
    return {static_cast<const char*>(data) + first_channel * kElementBytes, s, static_cast<int>(size[1]),
            static_cast<int>(size[2]), imin(all_channels() - first_channel, 2 * kLanes)};
  }

  // The pixel that a tap adds; of taps that are not there, whose sums go nowhere, that of the first.
  TS_DEVICE int pixel_of_tap(const Step& s, int tap) const {
    const int h = tap / cfg::kTaps, w = tap % cfg::kTaps;
    return tap < kTapsOfPart && h < s.taps_h && w < s.taps_w ? h * s.columns + w : 0;
  }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const u32 x = smem_address(stage_at(stage)), y = smem_address(y_at(stage));
    // Of the four matrices of a load: of y's octets and eights of pixels, the latter change first; of x's the octets, or
    // taps, do.
    const int inner = lane() / 8 & 1, outer = lane() / 16;
    int tap_at[kProducts];
#pragma unroll
    for (int p = 0; p < kProducts; ++p) tap_at[p] = pixel_of_tap(s, kBothOctets ? p : 2 * p + inner);
    for (int sixteen = team(); sixteen < kResults / 16; sixteen += kTeams) {
      u32 b[4];
      const int result_y = 16 * sixteen + 8 * inner + lane() % 8;
      load_matrices_transposed(b, octet_at(y, result_y, 2 * pair() + outer));
      const int result_x = 16 * sixteen + 8 * outer + lane() % 8;
      const int pixel = result_x / cfg::kColumns * s.row_pace * s.columns + result_x % cfg::kColumns * cfg::kPace;
#pragma unroll
      for (int p = 0; p < kProducts; ++p) {
        const u32 from = octet_at(x, pixel + tap_at[p], 2 * pair() + (kBothOctets ? inner : 0));
        u32 a[4];
        load_matrices_transposed(a, from);
        multiply_add(sums[0][p], a[0], a[1], a[2], a[3], b[0], b[1]);
        if constexpr (!kBothOctets) load_matrices_transposed(a, from ^ 16);
        multiply_add(sums[1][p], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
  }

  // Team by team, from the last to the first, which has the whole then.
  TS_DEVICE void join_teams(Sums& sums) const {
    float* const places = reinterpret_cast<float*>(shared + kStepBytes) + threadIdx.x % kTeamThreads * 4;
#pragma unroll
    for (int t = kTeams - 1; t > 0; --t) {
      __syncthreads();
      if (team() == t) {
#pragma unroll
        for (int i = 0; i < 2 * kProducts; ++i)
          *reinterpret_cast<float4*>(places + i * 4 * kTeamThreads) =
              make_float4(sums[i / kProducts][i % kProducts][0], sums[i / kProducts][i % kProducts][1],
                          sums[i / kProducts][i % kProducts][2], sums[i / kProducts][i % kProducts][3]);
      }
      __syncthreads();
      if (team() == t - 1) {
#pragma unroll
        for (int i = 0; i < 2 * kProducts; ++i) {
          float(&own)[4] = sums[i / kProducts][i % kProducts];
          const float4 others = *reinterpret_cast<const float4*>(places + i * 4 * kTeamThreads);
          own[0] += others.x, own[1] += others.y, own[2] += others.z, own[3] += others.w;
        }
      }
    }
  }

  // Groups of 4: whether a thread's four sums are of one group's channels.
  static TS_DEVICE bool own_group(int l) { return cfg::kChannels != 4 || l / 16 == l % 4 / 2; }

  // [octet of y][product][thread of a team][4].
  TS_DEVICE void leave(int run, const Sums& sums) const {
    float* const to = args.partials + (static_cast<i64>(unit) * args.splits + run) * kPartFloats + threadIdx.x * 4;
    if (!own_group(lane())) return;
#pragma unroll
    for (int i = 0; i < 2 * kProducts; ++i) {
      const float(&own)[4] = sums[i / kProducts][i % kProducts];
      *reinterpret_cast<float4*>(to + i * 4 * kTeamThreads) = make_float4(own[0], own[1], own[2], own[3]);
    }
  }

  TS_DEVICE void run(int number) const {
    const Pixels x = pixels_of(args.x, args.x_strides, args.x_size);
    const Pixels y = pixels_of(args.y, args.y_strides, args.y_size);
    const Run run_of_tiles = Run::of(args, number);
    Sums sums = {};
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int step) { return plan_step(args, shape, run_of_tiles, part, step); },
        [&](const Step& s, int stage) {
          if (s.rows == 0) return;
          // Whole tiles: what lies in no image is zeros.
          const int rows = (cfg::kRows - 1) * s.row_pace + s.taps_h;
          copy_tile<true>(smem_address(stage_at(stage)), shape, x, s.image, s.slice, s.row, s.column, s.row_hop,
                          s.column_hop, rows, s.columns, s.rows, s.columns_met);
          copy_tile<true>(smem_address(y_at(stage)), shape, y, s.image, s.at[0], s.at[1], s.at[2], s.apart[1], s.apart[2],
                          cfg::kRows, cfg::kColumns, s.results_h, s.results_w);
        },
        [] {},
        [&](const Step& s, int stage) {
          if (s.rows > 0) multiply(s, stage, sums);
        });
    join_teams(sums);
    if (team() == 0) leave(number, sums);
  }

  // Four sums as the tensor cores have them: columns 2q and 2q + 1 of rows g and g + 8.
  TS_DEVICE void store(int quad, const float (&total)[4]) const {
    const int thread = quad % kTeamThreads, l = thread % 32, product = quad / kTeamThreads % kProducts;
    const int pair = thread / 32, octet = quad / kTeamThreads / kProducts;
    const TsConvStrides& s = args.w_strides;
    constexpr int kBytes = bytes_of(cfg::kTypeD);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int out = 16 * pair + 8 * octet + 2 * (l % 4) + e % 2, row = l / 4 + 8 * (e / 2);
      const int tap = kBothOctets ? product : 2 * product + e / 2;
      const int c = (kBothOctets ? row : 8 * octet + l / 4) % cfg::kChannels;
      const int h = part.h + tap / cfg::kTaps, w = part.w + tap % cfg::kTaps;
      if (tap >= kTapsOfPart || h >= args.filter[1] || w >= args.filter[2] || first_channel + out >= all_channels())
        continue;
      const i64 to = (first_channel + out) / cfg::kChannels * s.group + out % cfg::kChannels * s.batch + c * s.channel +
                     part.d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2];
      store_bits<kBytes>(static_cast<char*>(args.out) + to * kBytes, pack_pair<cfg::kTypeD>(total[e], total[e]).words[0]);
    }
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];  // octets are exchanged by a bit of the address
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  constexpr int kWidth = 2 * ts::conv::kLanes;
  const int blocks = ts::ceil_div(static_cast<int>(args.groups) * ts::cfg::kChannels, kWidth);
  const ts::conv::FilterParts parts(args);
  const auto of_unit = [&](int unit) {
    return ts::conv::GroupedWeight{args,          ts::conv::whole_shape(args),       unit % blocks * kWidth,
                                   parts.at(unit / blocks), unit, dynamic_shared};
  };
  const int units = parts.count() * blocks, number = static_cast<int>(blockIdx.x);
  if (args.join) {
    ts::conv::join_runs(
        args, units, ts::conv::kPartFloats, dynamic_shared,
        [](int quad) { return ts::conv::GroupedWeight::own_group(quad % 32); },
        [&](int unit, int quad, const float(&total)[4]) { of_unit(unit).store(quad, total); });
  } else {
    // Blocks that read the same pixels follow each other.
    of_unit(number % units).run(number / units);
  }
}
