// What the templates for groups of a few channels share. Eight neighbouring channels, an octet, are 16 bytes. A block has
// 64 channels: eight octets, of which four warps have two each. All fours of warps, teams, share a tile's results.
#pragma once

#include "../../gemm/mma.cuh"
#include "../depthwise/stages.cuh"

namespace ts::conv {

constexpr int kLanes = 32;         // of two channels each
constexpr int kPairsOfOctets = 4;  // of a block
constexpr int kResults = cfg::kRows * cfg::kColumns;
constexpr int kTeams = cfg::kWarps / kPairsOfOctets;
constexpr int kDepth = ceil_div(cfg::kChannels, 16);  // sixteens of channels that are summed
constexpr int kGroupsOfOctet = cfg::kChannels < 8 ? 8 / cfg::kChannels : 1;
static_assert(kElementBytes == 2 && (kGroupsOfOctet * cfg::kChannels == 8 || cfg::kChannels == 16 ||
                                     cfg::kChannels == 32 || cfg::kChannels == 64));
static_assert(cfg::kWarps % kPairsOfOctets == 0);

TS_DEVICE int pair() {
  return warp() % kPairsOfOctets;
}
TS_DEVICE int team() {
  return warp() / kPairsOfOctets;
}

// The address of an octet of a pixel in a swizzled tile (stages.cuh).
TS_DEVICE u32 octet_at(u32 tile, int pixel, int octet) {
  return tile + pixel * 128 + ((octet ^ (pixel & 7)) << 4);
}

// The same of pixels that are a known number behind `first`: those a multiple of 8 apart lie alike, but for an immediate.
struct OctetPlaces {
  u32 place[8];

  TS_DEVICE OctetPlaces(u32 tile, int first, int octet) {
#pragma unroll
    for (int e = 0; e < 8; ++e) place[e] = octet_at(tile, first + e, octet) - e * 128;
  }
  TS_DEVICE u32 at(int pixel) const { return place[pixel % 8] + pixel * 128; }
};

}  // namespace ts::conv
