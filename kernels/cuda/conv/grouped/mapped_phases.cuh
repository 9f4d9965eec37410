// Backward data with a stride of 2 in groups of 2, 4, 8, 16 or 32 channels to as many, of 3 x 3 taps and an odd pad, of
// 16-bit tensors, for Hopper (sm_90a).
//
// Pixel 2 j of x along a coordinate meets the tap in the middle, from pixel j + (pad - 1) / 2 of y; pixel 2 j + 1 meets
// the last from there and the first from the next. So a tile of pixels of y has what four phases of x meet: a place is a
// pixel of each. All of them are multiplied while the tile is in shared memory, and every tap once for a place.
//
// Groups of 2 and 4 share their octet, as in mapped_data.cuh.
//
// Configuration: as in mapped_data.cuh, with
//   kRows, kColumns           places of a tile
//   kTaps, kPace              2, on either side: the most that meet a pixel of x; 1
//
// Launch: as in mapped_data.cuh, of tiles of places: args.phases are 1 on either side.
#pragma once

#include "mapped_rows.cuh"

namespace ts::conv {

static_assert(cfg::kTaps == 2 && cfg::kPace == 1 && !kForward && !kWeight);

struct MappedPhases : MappedRows {
  static constexpr int kPhases = 4;  // 2 * that of rows + that of columns
  using PhaseSums = Sums[kPhases];
  using StripSums = PhaseSums;

  // Phase 0 of a coordinate meets tap 1, phase 1 the others.
  static constexpr int phase_of_tap(int tap) { return tap == 1 ? 0 : 1; }
  // From a place's first pixel of y to what a tap meets.
  static constexpr int pixel_of_tap(int tap) { return tap == 0 ? 1 : 0; }

  // A tile of places: `at` and the counts of results are those of all phases.
  TS_DEVICE Step plan(const Run& run, int number) const {
    Step s = {};
    s.wanted = number < run.steps;
    if (!s.wanted) return s;
    u32 rest = static_cast<u32>(run.first_tile + number * run.apart);
    const int row = split_off(rest, args.tiles[1]) * cfg::kRows, column = split_off(rest, args.tiles[2]) * cfg::kColumns;
    const int slice = split_off(rest, args.tiles[0]);
    s.image = static_cast<int>(rest);
    s.slice = slice + static_cast<int>(args.pad[0]);
    s.row = row + static_cast<int>(args.pad[1]) / 2;
    s.column = column + static_cast<int>(args.pad[2]) / 2;
    s.rows = s.slice < pixels_along(args, 0) ? kTileRows : 0;
    s.tap_h = kFilterSide;
    s.tap_w = 1;
    s.at[0] = slice, s.at[1] = 2 * row, s.at[2] = 2 * column;
    s.apart[1] = s.apart[2] = 2;
    s.results_h = static_cast<int>(args.x_size[1]) - s.at[1];
    s.results_w = static_cast<int>(args.x_size[2]) - s.at[2];
    return s;
  }

  static TS_DEVICE Step of_phase(const Step& places, int phase) {
    Step s = places;
    const int h = phase / 2, w = phase % 2;
    s.at[1] += h;
    s.at[2] += w;
    s.results_h = imin((s.results_h - h + 1) / 2, cfg::kRows);
    s.results_w = imin((s.results_w - w + 1) / 2, cfg::kColumns);
    return s;
  }

  TS_DEVICE void multiply(const Step& s, u32 tile, int strip, PhaseSums& sums) const {
#pragma unroll 1
    for (int sixteen = 0; sixteen < kDepth; ++sixteen) {
      const OctetPlaces places(tile, first_pixel(strip), own_octet(sixteen));
#pragma unroll
      for (int c = 0; c < kFilterSide; ++c) {
        u32 w[kFilterSide][kWeightWords];
        load_column(s, c, w, sixteen);
        Sums &middle = sums[phase_of_tap(c)], &outer = sums[2 + phase_of_tap(c)];
        u32 before[4] = {};
#pragma unroll
        for (int i = 0; i < kRowsMet; ++i) {
          u32 a[4];
          load_matrices(a, places.at(i * kPitch + pixel_of_tap(c)));
          if constexpr (kWeightWords == 4) {
            if (i < kHalf) add_sixteen(middle[i], a, w[1]);
            if (i < kHalf) add_sixteen(outer[i], a, w[2]);
            if (i > 0) add_sixteen(outer[i - 1], a, w[0]);
          } else {
#pragma unroll
            for (int o = 0; o < 2; ++o) {
              if (i < kHalf) multiply_add_octet(middle[i][o], a[2 * o], a[2 * o + 1], w[1][o]);
              if (i > 0)  // two taps share a product
                multiply_add(outer[i - 1][o], before[2 * o], before[2 * o + 1], a[2 * o], a[2 * o + 1], w[2][o], w[0][o]);
            }
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) before[e] = a[e];
        }
      }
    }
  }
  static TS_DEVICE void add_sixteen(float (&own)[2][4], const u32 (&a)[4], const u32 (&w)[kWeightWords]) {
    multiply_add(own[0], a[0], a[1], a[2], a[3], w[0], w[1]);
    multiply_add(own[1], a[0], a[1], a[2], a[3], w[kWeightWords - 2], w[kWeightWords - 1]);
  }

  static TS_DEVICE bool finite(const PhaseSums& sums) {
    float nothing = 0.0f;
#pragma unroll
    for (int i = 0; i < kPhases * kHalf * 8; ++i)
      nothing = fmaf(sums[i / 8 / kHalf][i / 8 % kHalf][i / 4 % 2][i % 4], 0.0f, nothing);
    return nothing == 0.0f;
  }

  // Groups that share an octet and whose sums are not finite, row by row: zeros for the pixels of the octet's others.
  TS_DEVICE void work_apart(const Step& s, u32 tile, int strip) const {
    const int group = 2 * (lane() & 3) / cfg::kChannels;  // of the lane's channels, of pixels and of results
#pragma unroll 1
    for (int row = 0; row < kPhases * kHalf; ++row) {
      const int phase = row / kHalf, h = row - phase * kHalf;
      float sums[2][4] = {};
#pragma unroll 1
      for (int one = 0; one < kGroupsOfOctet; ++one) {
        float of_one[2][4] = {};
#pragma unroll 1
        for (int tap = 0; tap < kFilterSide * kFilterSide; ++tap) {
          const int r = tap / kFilterSide, c = tap - r * kFilterSide;
          if (2 * phase_of_tap(r) + phase_of_tap(c) != phase) continue;
          u32 w[kWeightWords], a[4];
          GroupWeights::words_of(shared + kWeightOffset, tap, w);
          load_matrices(a, octet_at(tile, first_pixel(strip) + (h + pixel_of_tap(r)) * kPitch + pixel_of_tap(c), own_octet()));
#pragma unroll
          for (u32& word : a) word = group == one ? word : 0;
#pragma unroll
          for (int o = 0; o < 2; ++o) multiply_add_octet(of_one[o], a[2 * o], a[2 * o + 1], w[o]);
        }
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[e / 4][e % 4] = group == one ? of_one[e / 4][e % 4] : sums[e / 4][e % 4];
      }
      finish_row(of_phase(s, phase), strip, h, sums);
    }
  }

  TS_DEVICE void finish(const Step& s, int strip, const PhaseSums& sums) const {
#pragma unroll
    for (int phase = 0; phase < kPhases; ++phase) finish_strip(of_phase(s, phase), strip, sums[phase]);
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped_phases
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  ts::conv::run_strips<ts::conv::MappedPhases>(maps, args);
}
