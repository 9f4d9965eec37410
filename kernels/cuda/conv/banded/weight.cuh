// Depthwise convolution on tensor cores for Hopper (sm_90a), backward weight, of 16-bit tensors whose pixels of y meet
// neighbouring pixels of x (planes.cuh says how). Of a channel and a row of the filter, sixteen columns of x are the rows
// of a product, eight columns of y its columns, and the tile's rows its depth. Tap s is the sum of the elements that are
// s below the diagonal; the others are not looked at.
//
// A block has a part of the filter and a run of tiles, whose sums it leaves in memory. A second launch adds the runs up,
// in their order: the same call gives the same bits.
//
// Configuration: as in data.cuh, with
//   kDirection                TS_CONV_BACKWARD_WEIGHT
//   kTypeA                    of x and y; kTypeB the same
//   kTapRows, kTaps           the part of a filter: odd, at most 9, and equal
//   kWarps                    8; kStages as there
//   kEpilogueLength           0
// Channels lie as data.cuh says, of x and y; w has any strides.
//
// Launch: twice, with args.join 0 and then 1. args.lanes is 16; kThreads threads; kSharedBytes of dynamic shared memory;
// a grid of args.splits * parts * blocks, with blocks = ceil(groups / 32) and parts as in depthwise/weight.cuh. There are
// `splits` partials of kPartFloats for each of parts * blocks.
#pragma once

#include "../runs.cuh"
#include "planes.cuh"

namespace ts::conv {

constexpr int kTapsOfPart = cfg::kTapRows * cfg::kTaps;
constexpr int kPartFloats = kChannels * kTapsOfPart;  // [tap][channel]
constexpr int kTileBytesOfY = cfg::kImages * cfg::kRows * cfg::kColumns * kPixelBytes;
constexpr int kStageBytes = kTileBytes + kTileBytesOfY;
constexpr int kSumBytes = 16 * 8 * 4;  // of a row of taps
constexpr int kStepOffset = cfg::kStages * kStageBytes + kChannels * (plane_bytes(kTileRows) + plane_bytes(cfg::kRows));
constexpr int kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
static_assert(kPartFloats % 4 == 0);
static_assert(cfg::kTapRows == cfg::kTaps && cfg::kWarps == 2 * kOctets);
static_assert(cfg::kWarps * cfg::kTapRows * kSumBytes <= kStepOffset && kJoinBytes <= kStepOffset);

struct BandedWeight {
  using Sums = float[kChannelsOfWarp][cfg::kTapRows][4];

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  FilterPart part;
  int unit;  // the number of the block's channels and part
  unsigned char* shared;

  TS_DEVICE u32 tile(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 tile_of_y(int stage) const { return tile(stage) + kTileBytes; }
  TS_DEVICE u32 plane(int channel) const { return tile(cfg::kStages) + channel * plane_bytes(kTileRows); }
  TS_DEVICE u32 plane_of_y(int channel) const { return plane(kChannels) + channel * plane_bytes(cfg::kRows); }
  TS_DEVICE int channels() const { return imin(static_cast<int>(args.groups) - first_channel, kChannels); }
  TS_DEVICE u32 barrier(int stage) const { return tile(0) + kBarrierOffset + 8 * stage; }

  TS_DEVICE void multiply(int channel, float (&sums)[cfg::kTapRows][4]) const {
    const int matrix = lane() / 8;
    u32 y[4];  // of either octet even rows, and odd ones
    load_matrices_transposed(y, plane_of_y(channel) + matrix / 2 * half_bytes(cfg::kRows) +
                                    pair_at(cfg::kRows, lane() % 8, matrix & 1));
    u32 x[(cfg::kTapRows + 1) / 2][2][4];
    const auto row = [&](int i) -> const u32(&)[4] { return x[i / 2][i % 2]; };
#pragma unroll
    for (int i = 0; i <= cfg::kTapRows; i += 2) {
      load_rows<true>(x[i / 2], plane(channel), i);
#pragma unroll
      for (int o = 0; o < 2; ++o) {
#pragma unroll
        for (int r = imax(i - 1, 0); r <= i; ++r)
          multiply_add(sums[r], row(r)[o], row(r)[o + 2], row(r + 1)[o], row(r + 1)[o + 2], y[o], y[2 + o]);
      }
    }
  }

  TS_DEVICE void leave(int run, const Sums& sums) const {
    float* const own = reinterpret_cast<float*>(shared) + warp() * cfg::kTapRows * 128;  // [row of taps][16][8]
    float* const to = args.partials + (static_cast<i64>(unit) * args.splits + run) * kPartFloats;
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

  TS_DEVICE void run(int number) const {
    const Run run_of_tiles = Run::of(args, number, cfg::kImages);
    Sums sums = {};
    run_mapped(
        reinterpret_cast<Step*>(shared + kStepOffset), barrier(0),
        [&](int step) { return plan_step(args, shape, run_of_tiles, part, step, cfg::kImages); },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kStageBytes);
          bring(tile(stage), maps.read, barrier(stage), first_channel, s.image, s.slice, s.row, s.column);
          bring(tile_of_y(stage), maps.y, barrier(stage), first_channel, s.image, s.at[0], s.at[1], s.at[2]);
        },
        [] {},
        [&](const Step& s, int stage, auto release) {
          __syncthreads();  // planes are read no more
          if (s.rows > 0) {
            turn_round<kTileRows, kPitch>(tile(stage), plane(0));
            turn_round<cfg::kRows, cfg::kColumns>(tile_of_y(stage), plane_of_y(0));
          }
          __syncthreads();
          release();
          if (s.rows == 0) return;
#pragma unroll
          for (int u = 0; u < kChannelsOfWarp; ++u) {
            if (u > 0) __syncwarp();  // or the compiler loads all of them ahead, and spills
            multiply(warp() * kChannelsOfWarp + u, sums[u]);
          }
        });
    __syncthreads();  // tiles and planes are read no more
    leave(number, sums);
  }

  // Four neighbouring channels of a tap.
  TS_DEVICE void store(int quad, const float (&total)[4]) const {
    const int tap = quad / (kChannels / 4), first = quad % (kChannels / 4) * 4;
    const int h = part.h + tap / cfg::kTaps, w = part.w + tap % cfg::kTaps;
    if (h >= args.filter[1] || w >= args.filter[2]) return;
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const TsConvStrides& s = args.w_strides;
    char* const to = static_cast<char*>(args.out) +
                     ((first_channel + first) * s.group + part.d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2]) * kBytes;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (first + e < channels())
        store_bits<kBytes>(to + e * s.group * kBytes, pack_pair<cfg::kTypeD>(total[e], total[e]).words[0]);
    }
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_banded_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  constexpr int kWidth = ts::conv::kChannels;
  const int blocks = ts::ceil_div(static_cast<int>(args.groups), kWidth);
  const ts::conv::FilterParts parts(args);
  unsigned char* const shared = ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared);
  const auto of_unit = [&](int unit) {
    return ts::conv::BandedWeight{maps, args, ts::conv::Shape::whole(args), unit % blocks * kWidth,
                                  parts.at(unit / blocks), unit, shared};
  };
  const int units = parts.count() * blocks, number = static_cast<int>(blockIdx.x);
  if (args.join) {
    ts::wait_for_previous_kernel();
    ts::let_next_kernel_start();
    ts::conv::join_runs(
        args, units, ts::conv::kPartFloats, shared, [](int) { return true; },
        [&](int unit, int quad, const float(&total)[4]) { of_unit(unit).store(quad, total); });
  } else {
    // Blocks that read the same pixels follow each other.
    of_unit(number % units).run(number / units);
  }
}
