// Convolution in groups of 2, 4, 8, 16 or 32 channels to as many, forward and backward data, of 3 x 3 taps, of 16-bit tensors,
// for Hopper (sm_90a). As data.cuh, but the copy engine brings tiles of pixels, taps are known when this is compiled, and
// a pixel is loaded from shared memory once for a column of taps.
//
// What both halves of a strip (mapped_rows.cuh) meet of rows i and i + kHalf is one load, and three rows of results are
// multiplied with it. Of smaller groups, which need half of a product's depth for a tap, two taps of a column share one.
// With pixels two apart every other of the rows met has two rows of results, and the others one.
//
// Groups of 2 and 4 share their octet: weights are zeros where a channel is of another group. If a sum is not finite, the
// strip is multiplied again, each group with zeros in the others' place, so that NaN stays in its group.
//
// Configuration: as in data.cuh, with
//   kRows, kColumns           results of a tile: an even number of rows; columns a multiple of 8 for each four warps
//   kTaps, kPace              3, on either side: every result meets as many; 1, forward also 2
//   kStages                   at most 7
//   kTilesApart (bool), true
//
// Launch: args.lanes is 32: a block has 64 channels. kThreads threads; kSharedBytes of dynamic shared memory; a grid of
// args.splits * ceil(channels / 64) blocks.
#pragma once

#include "mapped_rows.cuh"

namespace ts::conv {

static_assert(cfg::kTaps == kFilterSide && (cfg::kPace == 1 || (cfg::kPace == 2 && kForward)));

struct MappedData : MappedRows {
  using StripSums = Sums;

  TS_DEVICE Step plan(const Run& run, int number) const { return plan_step(args, shape, run, {}, number); }

  TS_DEVICE void multiply(const Step& s, u32 tile, int strip, Sums& sums) const {
#pragma unroll 1
    for (int sixteen = 0; sixteen < kDepth; ++sixteen) multiply(s, tile, strip, sixteen, sums);
  }

  TS_DEVICE void multiply(const Step& s, u32 tile, int strip, int sixteen, Sums& sums) const {
    const OctetPlaces places(tile, first_pixel(strip), own_octet(sixteen));
#pragma unroll
    for (int c = 0; c < cfg::kTaps; ++c) {
      u32 w[cfg::kTaps][kWeightWords];
      load_column(s, c, w, sixteen);
      u32 before[4] = {};
#pragma unroll
      for (int i = 0; i < kRowsMet; ++i) {
        u32 a[4];
        load_matrices(a, places.at(i * kPitch + c));
#pragma unroll
        for (int r = 0; r < cfg::kTaps; ++r) {
          if (i < r || (i - r) % cfg::kPace != 0 || (i - r) / cfg::kPace >= kHalf) continue;
          float(&own)[2][4] = sums[(i - r) / cfg::kPace];
          if constexpr (kWeightWords == 4) {
            multiply_add(own[0], a[0], a[1], a[2], a[3], w[r][0], w[r][1]);
            multiply_add(own[1], a[0], a[1], a[2], a[3], w[r][2], w[r][3]);
          } else if (r > 0) {
#pragma unroll
            for (int o = 0; o < 2; ++o) {
              if (r == 1)
                multiply_add(own[o], before[2 * o], before[2 * o + 1], a[2 * o], a[2 * o + 1], w[0][o], w[1][o]);
              else
                multiply_add_octet(own[o], a[2 * o], a[2 * o + 1], w[2][o]);
            }
          }
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) before[e] = a[e];
      }
    }
  }

  static TS_DEVICE bool finite(const Sums& sums) {
    float nothing = 0.0f;
#pragma unroll
    for (int i = 0; i < kHalf * 8; ++i) nothing = fmaf(sums[i / 8][i / 4 % 2][i % 4], 0.0f, nothing);
    return nothing == 0.0f;
  }

  // Groups that share an octet and whose sums are not finite, row by row: zeros for the pixels of the octet's others.
  TS_DEVICE void work_apart(const Step& s, u32 tile, int strip) const {
    const int group = 2 * (lane() & 3) / cfg::kChannels;  // of the lane's channels, of pixels and of results
#pragma unroll 1
    for (int h = 0; h < kHalf; ++h) {
      float sums[2][4] = {};
#pragma unroll 1
      for (int one = 0; one < kGroupsOfOctet; ++one) {
        float of_one[2][4] = {};
#pragma unroll
        for (int c = 0; c < cfg::kTaps; ++c) {
          u32 w[cfg::kTaps][kWeightWords];
          load_column(s, c, w);
#pragma unroll
          for (int r = 0; r < cfg::kTaps; ++r) {
            u32 a[4];
            load_matrices(a, octet_at(tile, first_pixel(strip) + (h * cfg::kPace + r) * kPitch + c, own_octet()));
#pragma unroll
            for (u32& word : a) word = group == one ? word : 0;
#pragma unroll
            for (int o = 0; o < 2; ++o) multiply_add_octet(of_one[o], a[2 * o], a[2 * o + 1], w[r][o]);
          }
        }
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[e / 4][e % 4] = group == one ? of_one[e / 4][e % 4] : sums[e / 4][e % 4];
      }
      finish_row(s, strip, h, sums);
    }
  }

  TS_DEVICE void finish(const Step& s, int strip, const Sums& sums) const { finish_strip(s, strip, sums); }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped_mapped
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  ts::conv::run_strips<ts::conv::MappedData>(maps, args);
}
