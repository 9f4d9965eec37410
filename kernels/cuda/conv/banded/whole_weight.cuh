// Depthwise convolution on tensor cores for Hopper (sm_90a), backward weight of images that are whole in a tile, of 16-bit
// tensors (diagonals.cuh says how). As weight.cuh, but a tile of x is four images without the border that results meet:
// planes have zeros there from the start. The blocks of a unit of channels are a cluster, and add up what they have from
// each other's shared memory, in their order: there is no second launch, and the same call gives the same bits.
//
// Configuration: as in weight.cuh, with
//   kImages, kRows, kColumns  4, 8, 8
//   kTapRows, kTaps           of the whole filter, or more
//   kStages                   tiles that are brought ahead
//   kCluster                  blocks of a unit
// Strides, dilation and depth are 1. Of either coordinate, a tile of x begins at pixel -(pad & 1), so that what lies
// there in planes has an even number: the image ends within its 8 places, and these within the planes.
//
// Launch: args.lanes is 16; kThreads threads; kSharedBytes of dynamic shared memory; a grid of args.splits *
// ceil(groups / 32) blocks, in clusters of args.splits, which is kCluster. Boxes of both maps are 8 x 8 pixels of four images.
#pragma once

#include "../clusters.cuh"
#include "diagonals.cuh"

namespace ts::conv {

constexpr int kStageBytes = 2 * kTileBytesOfY;  // x and y
constexpr int kPlaneOffset = cfg::kStages * kStageBytes;
constexpr int kBarrierOffset = kPlaneOffset + kPlanesOfX + kPlanesOfY;
constexpr int kSharedBytes = kBarrierOffset + 8 * cfg::kStages + kTileAlignment;
static_assert(kSmall && kDiagonalBytes + kPartFloats * 4 <= kBarrierOffset);

struct WholeWeight {
  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  int first_channel;  // of the block
  int rank;           // of the cluster's
  unsigned char* shared;

  TS_DEVICE u32 tile(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 planes() const { return smem_address(shared) + kPlaneOffset; }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }
  TS_DEVICE int pad(int d) const { return static_cast<int>(args.pad[d]); }

  // Of the step's four images.
  TS_DEVICE void copy(int step, int stage) const {
    const int image = cfg::kImages * (rank + step * cfg::kCluster);
    mbarrier_expect(barrier(stage), kStageBytes);
    bring(tile(stage), maps.read, barrier(stage), first_channel, image, 0, -(pad(1) & 1), -(pad(2) & 1));
    bring(tile(stage) + kTileBytesOfY, maps.y, barrier(stage), first_channel, image, 0, 0, 0);
  }

  TS_DEVICE void run() const {
    const int images = ceil_div(static_cast<int>(args.batch), cfg::kImages), steps = ceil_div(images - rank, cfg::kCluster);
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
      for (int s = 0; s < cfg::kStages; ++s) mbarrier_init(barrier(s), 1);
      fence_mbarrier_init();
    }
    wait_for_previous_kernel();
    let_next_kernel_start();
    if (thread == 0) {
      for (int s = 0; s < cfg::kStages; ++s)
        if (s < steps) copy(s, s);
    }
    for (int i = thread; i < kPlanesOfX / 16; i += kThreads)
      reinterpret_cast<uint4*>(shared + kPlaneOffset)[i] = make_uint4(0, 0, 0, 0);
    // Where a tile's first pixels lie in planes.
    const int row = pad(1) / 2 * kPlaneRowBytes, column = pad(2) / 2 * 4;
    Diagonals sums;
    for (int step = 0, stage = 0, parity = 0; step < steps; ++step) {
      __syncthreads();  // planes are read no more
      mbarrier_wait(barrier(stage), parity);
      turn_round<cfg::kRows, cfg::kColumns, false, kTileRows>(tile(stage), planes() + row + column);
      turn_round<cfg::kRows, cfg::kColumns>(tile(stage) + kTileBytesOfY, planes() + kPlanesOfX);
      __syncthreads();
      if (thread == 0 && step + cfg::kStages < steps) copy(step + cfg::kStages, stage);
      sums.multiply(planes());
      if (++stage == cfg::kStages) stage = 0, parity ^= 1;
    }
    __syncthreads();  // tiles and planes are read no more
    float* const own = reinterpret_cast<float*>(shared + kDiagonalBytes);
    sums.leave(own, shared);
    const FilterPart whole;
    join_clusters<kThreads, cfg::kCluster>(
        smem_address(own), kPartFloats / 4, rank, 0, 1, nullptr, nullptr, 0, [](int) { return true; },
        [&](int quad, const float(&total)[4]) { store_taps(args, first_channel, whole, quad, total); });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_banded_whole_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const int unit = static_cast<int>(blockIdx.x) / ts::cfg::kCluster;
  const ts::conv::WholeWeight kernel{maps, args, unit * ts::conv::kChannels,
                                     static_cast<int>(blockIdx.x) % ts::cfg::kCluster,
                                     ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared)};
  kernel.run();
}
