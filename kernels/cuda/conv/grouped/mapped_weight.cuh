// Convolution in groups of 2, 4, 8, 16 or 32 channels to as many, backward weight, of 16-bit tensors, for Hopper (sm_90a). As
// weight.cuh, but the copy engine brings tiles of pixels, and a pixel of x is loaded from shared memory once for a column
// of taps.
//
// A warp has two octets and sixteen columns of some rows of y; eight columns of either image, where a tile has two. What
// a row of x has at one of three columns of taps is one load, and three rows of y are multiplied with it. Of smaller groups
// the rows of a product are two such loads' halves; of groups of 32 warps have a sixteen of x's channels each.
//
// Configuration: as in weight.cuh, with
//   kImages                   1; 2: of 8 columns
//   kRows, kColumns           pixels of y of a tile: a multiple of 16 columns, which four warps each share, as rows where
//                             there are more
//   kStages                   at most 7
//   kTilesApart (bool), true
//   kCluster                  blocks of a unit that are a cluster, and add up their sums from each other's shared memory.
//                             1: there are none
//
// Launch: of clusters once; else twice, with args.join 0 and then 1. args.lanes is 32; kThreads threads; kSharedBytes of
// dynamic shared memory; a grid of args.splits * parts * blocks, with blocks = ceil(channels / 64) and parts as in
// depthwise/weight.cuh; args.splits is a multiple of kCluster. There are args.splits / kCluster partials of kPartFloats
// for each of parts * blocks, and as many counters as grid blocks.
#pragma once

#include "../clusters.cuh"
#include "../mapped.cuh"
#include "filter_sums.cuh"

namespace ts::conv {

constexpr int kSixteens = cfg::kColumns * cfg::kImages / 16;  // of columns
constexpr int kColumnTeams = kSixteens < kPixelTeams ? kSixteens : kPixelTeams;
constexpr int kStrips = kSixteens / kColumnTeams;                       // of sixteen columns, of a warp
constexpr int kRowsOfWarp = cfg::kRows / (kPixelTeams / kColumnTeams);  // of y
constexpr int kPitch = (cfg::kColumns - 1) * cfg::kPace + cfg::kTaps;  // pixels of a row of x's tile
constexpr int kTileRows = (cfg::kRows - 1) * cfg::kPace + cfg::kTapRows;
constexpr int kRowsMet = (kRowsOfWarp - 1) * cfg::kPace + cfg::kTapRows;
constexpr int kTileAlignment = 1024;  // of the swizzle
constexpr int kBytesOfX = cfg::kImages * kTileRows * kPitch * 128, kBytesOfY = cfg::kImages * kResults * 128;
constexpr int kOffsetOfY = ceil_div(kBytesOfX, kTileAlignment) * kTileAlignment;
constexpr int kStageBytes = kOffsetOfY + ceil_div(kBytesOfY, kTileAlignment) * kTileAlignment;
constexpr int kStepOffset = cfg::kStages * kStageBytes > kTailBytes ? cfg::kStages * kStageBytes : kTailBytes;
constexpr int kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
// What the second eight of sixteen columns is apart from the first, in pixels.
constexpr int kEightOfX = cfg::kImages == 2 ? kTileRows * kPitch : 8 * cfg::kPace;
constexpr int kEightOfY = cfg::kImages == 2 ? kResults : 8;
static_assert(kSixteens % kColumnTeams == 0 && kPixelTeams % kColumnTeams == 0);
static_assert(cfg::kColumns * cfg::kImages % 16 == 0 && (cfg::kImages == 1 || (cfg::kImages == 2 && cfg::kColumns == 8)));
static_assert(cfg::kRows % (kPixelTeams / kColumnTeams) == 0);

struct MappedWeight {
  using Sums = FilterSums::Sums;

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  FilterSums filter;  // the block's
  unsigned char* shared;

  TS_DEVICE u32 stage_at(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }

  static TS_DEVICE void multiply(u32 tile, int strip, Sums& sums) {
    // Of the four matrices of a load: of y's octets and eights of pixels, the latter change first; of x's the octets do.
    const int inner = lane() / 8 & 1, outer = lane() / 16, row = pixel_team() / kColumnTeams * kRowsOfWarp;
    const int column = 16 * strip + lane() % 8, octets = 2 * pair();
    const int octets_of_x = 2 * (pair() / kDepth * kDepth + sixteen_of_team());
    const int first_x = row * cfg::kPace * kPitch + column * cfg::kPace + outer * kEightOfX;
    const int first_y = row * cfg::kColumns + column + inner * kEightOfY;
    const OctetPlaces places(tile, first_x, octets_of_x + inner);
    const auto x_at = [&](int pixel) {  // beside the sums of groups of 16 there are no registers for places
      return kBothOctets ? octet_at(tile, first_x + pixel, octets_of_x + inner) : places.at(pixel);
    };
    u32 y[kRowsOfWarp][4], last[4] = {};  // of either octet both eights; x of the row before, at the last tap
#pragma unroll
    for (int i = 0; i < kRowsMet; ++i) {
      if (i % cfg::kPace == 0 && i / cfg::kPace < kRowsOfWarp)
        load_matrices_transposed(y[i / cfg::kPace], octet_at(tile + kOffsetOfY, first_y + i / cfg::kPace * cfg::kColumns,
                                                             octets + outer));
      u32 x[cfg::kTaps][4];
#pragma unroll
      for (int c = 0; c < cfg::kTaps; ++c)
        load_matrices_transposed(x[c], x_at(i * kPitch + c));
#pragma unroll
      for (int r = 0; r < cfg::kTapRows; ++r) {
        if (i < r || (i - r) % cfg::kPace != 0 || (i - r) / cfg::kPace >= kRowsOfWarp) continue;
        const u32(&b)[4] = y[(i - r) / cfg::kPace];
#pragma unroll
        for (int o = 0; o < 2; ++o) {
          if constexpr (kBothOctets) {
#pragma unroll
            for (int c = 0; c < cfg::kTaps; ++c)
              multiply_add(sums[o][r * cfg::kTaps + c], x[c][0], x[c][1], x[c][2], x[c][3], b[2 * o], b[2 * o + 1]);
          } else {
            // The products of tap_of().
            multiply_add(sums[o][r], x[0][o], x[1][o], x[0][2 + o], x[1][2 + o], b[2 * o], b[2 * o + 1]);
            if (r == 1) multiply_add(sums[o][3], last[o], x[2][o], last[2 + o], x[2][2 + o], b[2 * o], b[2 * o + 1]);
            if (r == 2) multiply_add(sums[o][4], x[2][o], 0, x[2][2 + o], 0, b[2 * o], b[2 * o + 1]);
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) last[e] = x[2][e];
    }
  }

  TS_DEVICE void run(int number) const {
    const Run run_of_tiles = Run::of(args, number, cfg::kImages);
    Sums sums = {};
    run_mapped(
        reinterpret_cast<Step*>(shared + kStepOffset), smem_address(shared) + kBarrierOffset,
        [&](int step) { return plan_step(args, shape, run_of_tiles, filter.part, step, cfg::kImages); },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kBytesOfX + kBytesOfY);
          bring(stage_at(stage), maps.read, barrier(stage), filter.first_channel, s.image, s.slice, s.row, s.column);
          bring(stage_at(stage) + kOffsetOfY, maps.y, barrier(stage), filter.first_channel, s.image, s.at[0], s.at[1],
                s.at[2]);
        },
        [] {},
        [&](const Step& s, int stage, auto release) {
          if (s.rows > 0) {
#pragma unroll 1
            for (int own = 0; own < kStrips; ++own)
              multiply(stage_at(stage), own * kColumnTeams + pixel_team() % kColumnTeams, sums);
          }
          release();
        });
    FilterSums::join_teams(sums, shared);
    if constexpr (cfg::kCluster == 1) {
      filter.leave(number, sums);
    } else {
      __syncthreads();  // tiles are read no more
      filter.leave(reinterpret_cast<float*>(shared), sums);
      const int cluster = number / cfg::kCluster, clusters = args.splits / cfg::kCluster;
      join_clusters<kThreads, cfg::kCluster>(
          smem_address(shared), kPartFloats / 4, number % cfg::kCluster, cluster, clusters,
          args.partials + static_cast<i64>(filter.unit) * clusters * kPartFloats,
          args.counters + filter.unit * cfg::kCluster, smem_address(shared) + kStepOffset,
          [](int quad) { return FilterSums::own_group(quad % 32); },
          [&](int quad, const float(&total)[4]) { filter.store(quad, total); });
    }
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped_mapped_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  unsigned char* const shared = ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared);
  if (ts::cfg::kCluster == 1 && args.join) {
    ts::wait_for_previous_kernel();
    ts::let_next_kernel_start();
    ts::conv::join_filters(args, shared);
  } else {
    // Blocks that read the same pixels follow each other.
    const int block = static_cast<int>(blockIdx.x), units = ts::conv::FilterSums::units(args);
    const int cluster = block / ts::cfg::kCluster;
    const ts::conv::MappedWeight kernel{maps, args, ts::conv::Shape::whole(args),
                                        ts::conv::FilterSums::of_unit(args, cluster % units), shared};
    kernel.run(cluster / units * ts::cfg::kCluster + block % ts::cfg::kCluster);
  }
}
