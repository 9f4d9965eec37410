// The sums of backward weight of groups of a few channels: what the templates for it leave in memory and add up.
#pragma once

#include "../runs.cuh"
#include "octets.cuh"

namespace ts::conv {

constexpr int kTapsOfPart = cfg::kTapRows * cfg::kTaps;
constexpr bool kBothOctets = cfg::kChannels >= 16;
constexpr int kProducts = kBothOctets ? kTapsOfPart : ceil_div(kTapsOfPart, 2);  // of an octet of y
constexpr int kTeamThreads = 32 * kPairsOfOctets;
// Teams have a sixteen of x's channels in a group each, or share its pixels.
constexpr int kPixelTeams = kTeams / kDepth;
constexpr int kSixteenFloats = 2 * kProducts * 4 * kTeamThreads, kPartFloats = kDepth * kSixteenFloats;
static_assert(cfg::kTapRows == 3 && cfg::kTaps == 3 && kTeams % kDepth == 0);
constexpr int kTailBytes = kPixelTeams > 1 || cfg::kCluster > 1 ? kPartFloats * 4 : kJoinBytes;

TS_DEVICE int sixteen_of_team() {
  return team() / kPixelTeams;
}
TS_DEVICE int pixel_team() {
  return team() % kPixelTeams;
}

// The tap of a product's rows, of smaller groups of its first or last eight: two of a row of taps, the last ones of two
// rows, or the very last alone, whose other eight rows are of no tap.
constexpr int tap_of(int product, int half) {
  if (kBothOctets) return product;
  if (product < cfg::kTapRows) return product * cfg::kTaps + half;
  const int row = 2 * (product - cfg::kTapRows) + half;
  return row < cfg::kTapRows ? row * cfg::kTaps + 2 : kTapsOfPart;
}

struct FilterSums {
  using Sums = float[2][kProducts][4];  // by octet of y

  const TsCudaConvArgs& args;
  int first_channel;  // of the block
  FilterPart part;
  int unit;  // the number of the block's channels and part

  // Units follow each other by channels, then by parts of the filter.
  static TS_DEVICE int blocks(const TsCudaConvArgs& args) {
    return ceil_div(static_cast<int>(args.groups) * cfg::kChannels, 2 * kLanes);
  }
  static TS_DEVICE int units(const TsCudaConvArgs& args) { return FilterParts(args).count() * blocks(args); }
  static TS_DEVICE FilterSums of_unit(const TsCudaConvArgs& args, int unit) {
    return {args, unit % blocks(args) * 2 * kLanes, FilterParts(args).at(unit / blocks(args)), unit};
  }
  TS_DEVICE int all_channels() const { return static_cast<int>(args.groups) * cfg::kChannels; }

  // Where a thread's sums are in a part: [sixteen of x][octet of y][product][thread of a team][4].
  static TS_DEVICE int place() {
    return sixteen_of_team() * kSixteenFloats + static_cast<int>(threadIdx.x) % kTeamThreads * 4;
  }

  // Teams that share pixels, from the last to the first, which has the whole then.
  static TS_DEVICE void join_teams(Sums& sums, unsigned char* shared) {
    float* const places = reinterpret_cast<float*>(shared) + place();
#pragma unroll
    for (int t = kPixelTeams - 1; t > 0; --t) {
      __syncthreads();
      if (pixel_team() == t) {
#pragma unroll
        for (int i = 0; i < 2 * kProducts; ++i)
          *reinterpret_cast<float4*>(places + i * 4 * kTeamThreads) =
              make_float4(sums[i / kProducts][i % kProducts][0], sums[i / kProducts][i % kProducts][1],
                          sums[i / kProducts][i % kProducts][2], sums[i / kProducts][i % kProducts][3]);
      }
      __syncthreads();
      if (pixel_team() == t - 1) {
#pragma unroll
        for (int i = 0; i < 2 * kProducts; ++i) {
          float(&own)[4] = sums[i / kProducts][i % kProducts];
          const float4 others = *reinterpret_cast<const float4*>(places + i * 4 * kTeamThreads);
          own[0] += others.x, own[1] += others.y, own[2] += others.z, own[3] += others.w;
        }
      }
    }
  }

  // Groups that share an octet: whether a thread's four sums are of one group's channels.
  static TS_DEVICE bool own_group(int l) {
    return kGroupsOfOctet == 1 || l / 4 / cfg::kChannels == 2 * (l % 4) / cfg::kChannels;
  }

  // Of the first of the teams that share pixels.
  TS_DEVICE void leave(int run, const Sums& sums) const {
    leave(args.partials + (static_cast<i64>(unit) * args.splits + run) * kPartFloats, sums);
  }
  static TS_DEVICE void leave(float* part, const Sums& sums) {
    float* const to = part + place();
    if (pixel_team() > 0 || !own_group(lane())) return;
#pragma unroll
    for (int i = 0; i < 2 * kProducts; ++i) {
      const float(&own)[4] = sums[i / kProducts][i % kProducts];
      *reinterpret_cast<float4*>(to + i * 4 * kTeamThreads) = make_float4(own[0], own[1], own[2], own[3]);
    }
  }

  // Four sums as the tensor cores have them: columns 2q and 2q + 1 of rows g and g + 8.
  TS_DEVICE void store(int quad, const float (&total)[4]) const {
    const int thread = quad % kTeamThreads, l = thread % 32, product = quad / kTeamThreads % kProducts;
    const int pair = thread / 32, octet = quad / kTeamThreads / kProducts % 2;
    const int sixteen = quad / kTeamThreads / kProducts / 2;
    const TsConvStrides& s = args.w_strides;
    constexpr int kBytes = bytes_of(cfg::kTypeD);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int out = 16 * pair + 8 * octet + 2 * (l % 4) + e % 2, row = l / 4 + 8 * (e / 2);
      const int tap = tap_of(product, e / 2);
      const int c = (kBothOctets ? 16 * sixteen + row : 8 * octet + l / 4) % cfg::kChannels;
      const int h = part.h + tap / cfg::kTaps, w = part.w + tap % cfg::kTaps;
      if (tap >= kTapsOfPart || h >= args.filter[1] || w >= args.filter[2] || first_channel + out >= all_channels())
        continue;
      const i64 to = (first_channel + out) / cfg::kChannels * s.group + out % cfg::kChannels * s.batch + c * s.channel +
                     part.d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2];
      store_bits<kBytes>(static_cast<char*>(args.out) + to * kBytes, pack_pair<cfg::kTypeD>(total[e], total[e]).words[0]);
    }
  }
};

// The second launch.
TS_DEVICE void join_filters(const TsCudaConvArgs& args, unsigned char* shared) {
  join_runs(
      args, FilterSums::units(args), kPartFloats, shared, [](int quad) { return FilterSums::own_group(quad % 32); },
      [&](int unit, int quad, const float(&total)[4]) { FilterSums::of_unit(args, unit).store(quad, total); });
}

}  // namespace ts::conv
