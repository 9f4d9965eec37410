// Depthwise convolution, backward weight, of 16-bit tensors, for Hopper (sm_90a). As weight.cuh, but the copy engine
// brings tiles of pixels, the filter has the taps that this is compiled for, and there is no second launch: blocks of a
// unit of channels are clusters, which read each other's sums (clusters.cuh).
//
// A thread has a strip of pixels of y (strips.cuh) and its channels' taps in registers. A row of pixels of x is read once
// from shared memory, and multiplied with the rows of y that meet it.
//
// Configuration: as in weight.cuh, with
//   kChannels                 of a block: 32 or 64
//   kRows, kColumns           pixels of y of a tile, as strips.cuh has them
//   kTapRows, kTaps           of the filter
//   kPace                     pixels of x between neighbours of y, along either coordinate
//   kStages                   at most 7
//   kTilesApart (bool), true
//   kCluster                  blocks of a cluster
//
// Launch: args.lanes is kChannels / 2; kThreads threads; kSharedBytes of dynamic shared memory; a grid of args.splits *
// ceil(groups / kChannels) blocks, args.splits being a multiple of kCluster, in clusters. There are args.splits / kCluster
// partials of kPartFloats for each block of channels, and as many counters as blocks. Boxes of the maps are kTileRows x
// kPitch pixels of x and kRows x kColumns of y, of kChannels channels, not swizzled.
#pragma once

#include "../clusters.cuh"
#include "strips.cuh"

namespace ts::conv {

constexpr int kTapsInAll = cfg::kTapRows * cfg::kTaps;
constexpr int kBytesOfY = cfg::kRows * cfg::kColumns * kPixelBytes;
constexpr int kOffsetOfY = aligned_bytes(kTileBytes), kStageBytes = kOffsetOfY + aligned_bytes(kBytesOfY);
constexpr int kPartFloats = kTapsInAll * cfg::kChannels;  // [tap][channel]
constexpr int kTailBytes = (kStrips + 1) * kPartFloats * 4;
constexpr int kStepOffset = cfg::kStages * kStageBytes > kTailBytes ? cfg::kStages * kStageBytes : kTailBytes;
constexpr int kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;

struct MappedDepthwiseWeight {
  using Sums = float[cfg::kTapRows][cfg::kTaps][2];

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int unit;  // the number of the block's channels
  unsigned char* shared;

  TS_DEVICE int first_channel() const { return unit * cfg::kChannels; }
  TS_DEVICE u32 stage_at(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }

  static TS_DEVICE void multiply(const unsigned char* tile, Sums& sums) {
    const unsigned char* const x =
        tile + (first_row() * kPitch + first_column()) * cfg::kPace * kPixelBytes + lane_of_strip() * 4;
    const unsigned char* const y =
        tile + kOffsetOfY + (first_row() * cfg::kColumns + first_column()) * kPixelBytes + lane_of_strip() * 4;
    float of_y[kStripRows][kStripColumns][2];  // the rows that are met
#pragma unroll
    for (int i = 0; i < kRowsMet; ++i) {
      if (i % cfg::kPace == 0 && i / cfg::kPace < kStripRows)
        load_pixels(of_y[i / cfg::kPace], y + i / cfg::kPace * cfg::kColumns * kPixelBytes);
      float of_x[kPixelsMet][2];
      load_pixels(of_x, x + i * kPitch * kPixelBytes);
#pragma unroll
      for (int r = 0; r < cfg::kTapRows; ++r) {
        if (i < r || (i - r) % cfg::kPace != 0 || (i - r) / cfg::kPace >= kStripRows) continue;
#pragma unroll
        for (int k = 0; k < cfg::kTaps; ++k) {
#pragma unroll
          for (int q = 0; q < kStripColumns; ++q) {
#pragma unroll
            for (int e = 0; e < 2; ++e)
              sums[r][k][e] = fmaf(of_y[(i - r) / cfg::kPace][q][e], of_x[q * cfg::kPace + k][e], sums[r][k][e]);
          }
        }
      }
    }
  }

  // The block's sums, strip by strip, to the first part of shared memory; strips lie behind it.
  TS_DEVICE void join_strips(const Sums& sums) const {
    float* const whole = reinterpret_cast<float*>(shared);
    float* const own = whole + (strip() + 1) * kPartFloats + 2 * lane_of_strip();
#pragma unroll
    for (int t = 0; t < kTapsInAll; ++t)
      *reinterpret_cast<float2*>(own + t * cfg::kChannels) =
          make_float2(sums[t / cfg::kTaps][t % cfg::kTaps][0], sums[t / cfg::kTaps][t % cfg::kTaps][1]);
    __syncthreads();
    for (int at = static_cast<int>(threadIdx.x); at < kPartFloats; at += kThreads) {
      float total = 0;
#pragma unroll
      for (int s = 1; s <= kStrips; ++s) total += whole[s * kPartFloats + at];
      whole[at] = total;
    }
  }

  TS_DEVICE void store(int quad, const float (&total)[4]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const int tap = quad * 4 / cfg::kChannels, channel = first_channel() + quad * 4 % cfg::kChannels;
    const TsConvStrides& s = args.w_strides;
    const i64 at = tap / cfg::kTaps * s.spatial[1] + tap % cfg::kTaps * s.spatial[2];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (channel + e < args.groups)
        store_bits<kBytes>(static_cast<char*>(args.out) + (at + (channel + e) * s.group) * kBytes,
                           pack_pair<cfg::kTypeD>(total[e], total[e]).words[0]);
    }
  }

  TS_DEVICE void run(int number) const {
    const Run run_of_tiles = Run::of(args, number);
    Sums sums = {};
    run_mapped(
        reinterpret_cast<Step*>(shared + kStepOffset), smem_address(shared) + kBarrierOffset,
        [&](int step) { return plan_step(args, shape, run_of_tiles, {}, step); },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kTileBytes + kBytesOfY);
          bring(stage_at(stage), maps.read, barrier(stage), first_channel(), s.image, s.slice, s.row, s.column);
          bring(stage_at(stage) + kOffsetOfY, maps.y, barrier(stage), first_channel(), s.image, s.at[0], s.at[1], s.at[2]);
        },
        [] {},
        [&](const Step& s, int stage, auto release) {
          if (s.rows > 0) multiply(shared + stage * kStageBytes, sums);
          release();
        });
    __syncthreads();  // tiles are read no more
    join_strips(sums);
    const int clusters = args.splits / cfg::kCluster;
    join_clusters<kThreads, cfg::kCluster>(
        smem_address(shared), kPartFloats / 4, number % cfg::kCluster, number / cfg::kCluster, clusters,
        args.partials + static_cast<i64>(unit) * clusters * kPartFloats, args.counters + unit * cfg::kCluster,
        smem_address(shared) + kStepOffset, [](int) { return true; },
        [&](int quad, const float(&total)[4]) { store(quad, total); });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_depthwise_mapped_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const int block = static_cast<int>(blockIdx.x), cluster = block / ts::cfg::kCluster;
  const int units = ts::ceil_div(static_cast<int>(args.groups), ts::cfg::kChannels);
  const ts::conv::MappedDepthwiseWeight kernel{maps, args, ts::conv::Shape::whole(args), cluster % units,
                                               ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared)};
  kernel.run(cluster / units * ts::cfg::kCluster + block % ts::cfg::kCluster);
}
