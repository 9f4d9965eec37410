// Convolution in groups of 2, 4, 8, 16 or 32 channels to as many, forward and backward data, of 3 x 3 taps, of 16-bit tensors,
// for Hopper (sm_90a). As data.cuh, but the copy engine brings tiles of pixels, taps are known when this is compiled, and
// a pixel is loaded from shared memory once for a column of taps.
//
// A warp has two octets of a tile's results, which it takes in strips: eight columns of all rows. The sixteen rows of a product are row h of a strip and, further down, row h + kHalf: so what both halves meet of
// rows i and i + kHalf is one load, and three rows of results are multiplied with it. Of smaller groups, which need
// half of a product's depth for a tap, two taps of a column share one. With pixels two apart every other of the rows met
// has two rows of results, and the others one.
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

#include "../mapped.cuh"
#include "results.cuh"

namespace ts::conv {

constexpr int kHalf = cfg::kRows / 2;                    // rows of results
constexpr int kPitch = (cfg::kColumns - 1) * cfg::kPace + cfg::kTaps;  // pixels of a row of a tile
constexpr int kTileRows = (cfg::kRows - 1) * cfg::kPace + cfg::kTaps;
constexpr int kRowsMet = (kHalf - 1) * cfg::kPace + cfg::kTaps;  // by half of a strip
constexpr int kTileAlignment = 1024;              // of the swizzle
constexpr int kTileBytes = kTileRows * kPitch * 128;
constexpr int kStageBytes = ceil_div(kTileBytes, kTileAlignment) * kTileAlignment;
constexpr int kWeightOffset = cfg::kStages * kStageBytes;
constexpr int kStepOffset = kWeightOffset + cfg::kTaps * cfg::kTaps * kTapBytes, kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
// An epilogue asks for columns that are octets apart.
constexpr bool kPlain = cfg::kEpilogueLength == 0 && bytes_of(cfg::kTypeD) == 2;
constexpr bool kFours = cfg::kChannels >= 16 && kPlain;
constexpr int kStripsOfWarp = cfg::kColumns / 8 / kTeams;
static_assert(cfg::kTaps == 3 && (cfg::kPace == 1 || (cfg::kPace == 2 && kForward)));
static_assert(cfg::kRows % 2 == 0 && cfg::kColumns % (8 * kTeams) == 0);

struct MappedData {
  using Sums = float[kHalf][2][4];                             // by octet

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE const TsConvStrides& out_strides() const { return kForward ? args.y_strides : args.x_strides; }
  TS_DEVICE u32 stage_at(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }

  // The words of a column of taps.
  TS_DEVICE void load_column(const Step& s, int column, u32 (&w)[cfg::kTaps][kWeightWords], int sixteen = 0) const {
#pragma unroll
    for (int r = 0; r < cfg::kTaps; ++r)
      GroupWeights::words_of(shared + kWeightOffset, s.tap + r * s.tap_h + column * s.tap_w, w[r], sixteen);
  }

  // The pixel of a lane's row of a load, of the first row of results, at the first tap.
  static TS_DEVICE int first_pixel(int strip) {
    return cfg::kPace * (lane() / 8 % 2 * kHalf * kPitch + 8 * strip + lane() % 8);
  }
  static TS_DEVICE int own_octet(int sixteen = 0) {
    return 2 * (pair() / kDepth * kDepth + sixteen) + lane() / 16;
  }

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

  // Rows h and h + kHalf of a strip.
  TS_DEVICE void finish_row(const Step& s, int strip, int h, const float (&sums)[2][4]) const {
    const TsConvStrides& strides = out_strides();
    const int column = 8 * strip + lane() / 4, rows = column < s.results_w ? s.results_h - h : 0;
    const GroupResults results{args, first_channel};
    float v[2][8];  // of either row: two neighbouring channels of either octet, as GEMM's epilogue has a row
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) v[r][e / 2 * 4 + e % 2] = sums[e / 2][2 * r + e % 2];
      results.apply_epilogue(s, h + r * kHalf, column, rows > r * kHalf, v[r]);
    }
    const i64 row_step = s.apart[1] * strides.spatial[1];
    const i64 first = s.image * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                      (s.at[2] + column * s.apart[2]) * strides.spatial[2];
    if constexpr (kFours) {
      results.store_four(first + h * row_step, rows > 0, v[0]);
      results.store_four(first + (h + kHalf) * row_step, rows > kHalf, v[1]);
    } else {
      results.store_two(first + h * row_step, kHalf * row_step, rows > 0, rows > kHalf, v);
    }
  }

  // All rows of a strip as they are.
  TS_DEVICE void store_strip(const Step& s, int strip, const Sums& sums) const {
    const TsConvStrides& strides = out_strides();
    const int column = 8 * strip + lane() / 4, channels = static_cast<int>(args.groups) * cfg::kChannels;
    const int at = first_channel + 16 * pair() + (kFours ? 4 * (lane() & 3) : 8 * (lane() & 1));
    const i64 row_step = s.apart[1] * strides.spatial[1] * 2;
    int rows = column < s.results_w && at < channels ? s.results_h : 0;
    char* out = static_cast<char*>(args.out) +
                2 * (s.image * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                     (s.at[2] + column * s.apart[2]) * strides.spatial[2] + at);
    char* second = out + kHalf * row_step;
    if (!kFours && (lane() & 2)) out = second, rows -= kHalf;
#pragma unroll
    for (int h = 0; h < kHalf; ++h) {
      const float(&v)[2][4] = sums[h];
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pack_pair<cfg::kTypeD>(v[i % 2][i / 2 * 2], v[i % 2][i / 2 * 2 + 1]).words[0];
      if constexpr (kFours) {  // a lane has four neighbouring channels of two rows
        store_8_bytes_if(h < rows, out, words[0], words[1]);
        store_8_bytes_if(h + kHalf < rows, second, words[2], words[3]);
        second += row_step;
      } else {  // lanes exchange theirs for an octet of one of the two
        exchange_octets(words);
        store_16_bytes_if(h < rows, out, words);
      }
      out += row_step;
    }
  }

  TS_DEVICE void run(int part) const {
    const Run run_of_tiles = Run::of(args, part);
    run_mapped(
        reinterpret_cast<Step*>(shared + kStepOffset), smem_address(shared) + kBarrierOffset,
        [&](int number) { return plan_step(args, shape, run_of_tiles, {}, number); },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kTileBytes);
          bring(stage_at(stage), maps.read, barrier(stage), first_channel, s.image, s.slice, s.row, s.column);
        },
        [&] { GroupWeights(args, first_channel).load<kFours, true>(shared + kWeightOffset); },  // the first warp plans
        [&](const Step& s, int stage, auto release) {
#pragma unroll 1
          for (int own = 0; own < kStripsOfWarp; ++own) {
            const int strip = own * kTeams + team();
            Sums sums = {};
            bool finished = false;
            if (s.rows > 0) {
              multiply(s, stage_at(stage), strip, sums);
              if (kGroupsOfOctet > 1 && __any_sync(0xffffffffu, !finite(sums))) {
                work_apart(s, stage_at(stage), strip);
                finished = true;
              }
            }
            if (own + 1 == kStripsOfWarp) release();
            if (finished) continue;
            if constexpr (kPlain) {
              store_strip(s, strip, sums);
            } else {
#pragma unroll
              for (int h = 0; h < kHalf; ++h) finish_row(s, strip, h, sums[h]);
            }
          }
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped_mapped
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  constexpr int kWidth = 2 * ts::conv::kLanes;
  const int channels = static_cast<int>(args.groups) * ts::cfg::kChannels, blocks = ts::ceil_div(channels, kWidth);
  const int part = static_cast<int>(blockIdx.x) / blocks, block = static_cast<int>(blockIdx.x) - part * blocks;
  const ts::conv::MappedData kernel{maps, args, ts::conv::Shape::whole(args), block * kWidth,
                                    ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared)};
  kernel.run(part);
}
