// What the templates of banded products share that add up weights. Of a channel and a row of the filter, sixteen columns
// of x are the rows of a product, eight columns of y its columns, and the tile's rows its depth. Tap s is the sum of the
// elements that are s below the diagonal; the others are not looked at.
#pragma once

#include "../runs.cuh"
#include "planes.cuh"

namespace ts::conv {

constexpr int kTapsOfPart = cfg::kTapRows * cfg::kTaps;
constexpr int kPartFloats = kChannels * kTapsOfPart;  // [tap][channel]
constexpr int kTileBytesOfY = cfg::kImages * cfg::kRows * cfg::kColumns * kPixelBytes;
constexpr int kPlanesOfX = kChannels * plane_bytes(kTileRows), kPlanesOfY = kChannels * plane_bytes(cfg::kRows);
constexpr int kDiagonalBytes = cfg::kWarps * cfg::kTapRows * 16 * 8 * 4;
static_assert(kPartFloats % 4 == 0);
static_assert(cfg::kTapRows == cfg::kTaps && cfg::kWarps == 2 * kOctets);

struct Diagonals {
  float sums[kChannelsOfWarp][cfg::kTapRows][4] = {};

  // Of planes of x, behind which those of y lie.
  TS_DEVICE void multiply(u32 planes) {
#pragma unroll
    for (int u = 0; u < kChannelsOfWarp; ++u) {
      if (u > 0) __syncwarp();  // or the compiler loads all of them ahead, and spills
      const int channel = warp() * kChannelsOfWarp + u;
      multiply(planes + channel * plane_bytes(kTileRows), planes + kPlanesOfX + channel * plane_bytes(cfg::kRows), sums[u]);
    }
  }

  static TS_DEVICE void multiply(u32 plane, u32 plane_of_y, float (&own)[cfg::kTapRows][4]) {
    const int matrix = lane() / 8;
    u32 y[4];  // of either octet even rows, and odd ones
    load_matrices_transposed(y, plane_of_y + matrix / 2 * half_bytes(cfg::kRows) +
                                    pair_at(cfg::kRows, lane() % 8, matrix & 1));
    u32 x[(cfg::kTapRows + 1) / 2][2][4];
    const auto row = [&](int i) -> const u32(&)[4] { return x[i / 2][i % 2]; };
#pragma unroll
    for (int i = 0; i <= cfg::kTapRows; i += 2) {
      load_rows<true>(x[i / 2], plane, i);
#pragma unroll
      for (int o = 0; o < 2; ++o) {
#pragma unroll
        for (int r = imax(i - 1, 0); r <= i; ++r)
          multiply_add(own[r], row(r)[o], row(r)[o + 2], row(r + 1)[o], row(r + 1)[o + 2], y[o], y[2 + o]);
      }
    }
  }

  // Leaves the taps of the warp's channels at `to`, [tap][channel]. `shared` has kDiagonalBytes.
  TS_DEVICE void leave(float* to, unsigned char* shared) const {
    float* const own = reinterpret_cast<float*>(shared) + warp() * cfg::kTapRows * 128;  // [row of taps][16][8]
#pragma unroll
    for (int u = 0; u < kChannelsOfWarp; ++u) {
#pragma unroll
      for (int r = 0; r < cfg::kTapRows; ++r) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          own[r * 128 + (lane() / 4 + e / 2 * 8) * 8 + 2 * (lane() & 3) + e % 2] = sums[u][r][e];
      }
      __syncwarp();
      for (int tap = lane(); tap < kTapsOfPart; tap += 32) {
        const float* const diagonal = own + tap / cfg::kTaps * 128 + tap % cfg::kTaps * 8;
        float sum = 0.0f;
#pragma unroll
        for (int q = 0; q < 8; ++q) sum += diagonal[q * 9];
        to[tap * kChannels + warp() * kChannelsOfWarp + u] = sum;
      }
      __syncwarp();
    }
  }
};

// The sums of four neighbouring channels of a tap: of a part of the filter, of the channels from `first_channel` on.
TS_DEVICE void store_taps(const TsCudaConvArgs& args, int first_channel, const FilterPart& part, int quad,
                          const float (&total)[4]) {
  const int tap = quad / (kChannels / 4), first = first_channel + quad % (kChannels / 4) * 4;
  const int h = part.h + tap / cfg::kTaps, w = part.w + tap % cfg::kTaps;
  if (h >= args.filter[1] || w >= args.filter[2]) return;
  constexpr int kBytes = bytes_of(cfg::kTypeD);
  const TsConvStrides& s = args.w_strides;
  char* const to = static_cast<char*>(args.out) +
                   (first * s.group + part.d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2]) * kBytes;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (first + e < args.groups)
      store_bits<kBytes>(to + e * s.group * kBytes, pack_pair<cfg::kTypeD>(total[e], total[e]).words[0]);
  }
}

}  // namespace ts::conv
