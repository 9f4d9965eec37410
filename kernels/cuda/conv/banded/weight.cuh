// Depthwise convolution on tensor cores for Hopper (sm_90a), backward weight, of 16-bit tensors whose pixels of y meet
// neighbouring pixels of x (diagonals.cuh says how).
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

#include "diagonals.cuh"

namespace ts::conv {

constexpr int kStageBytes = kTileBytes + kTileBytesOfY;
constexpr int kStepOffset = cfg::kStages * kStageBytes + kPlanesOfX + kPlanesOfY;
constexpr int kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
static_assert(kDiagonalBytes <= kStepOffset && kJoinBytes <= kStepOffset);

struct BandedWeight {
  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  FilterPart part;
  int unit;  // the number of the block's channels and part
  unsigned char* shared;

  TS_DEVICE u32 tile(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 tile_of_y(int stage) const { return tile(stage) + kTileBytes; }
  TS_DEVICE u32 planes() const { return tile(cfg::kStages); }
  TS_DEVICE u32 barrier(int stage) const { return tile(0) + kBarrierOffset + 8 * stage; }

  TS_DEVICE void run(int number) const {
    const Run run_of_tiles = Run::of(args, number, cfg::kImages);
    Diagonals sums;
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
            turn_round<kTileRows, kPitch>(tile(stage), planes());
            turn_round<cfg::kRows, cfg::kColumns>(tile_of_y(stage), planes() + kPlanesOfX);
          }
          __syncthreads();
          release();
          if (s.rows > 0) sums.multiply(planes());
        });
    __syncthreads();  // tiles and planes are read no more
    sums.leave(args.partials + (static_cast<i64>(unit) * args.splits + number) * kPartFloats, shared);
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
        [&](int unit, int quad, const float(&total)[4]) {
          const ts::conv::BandedWeight of = of_unit(unit);
          ts::conv::store_taps(args, of.first_channel, of.part, quad, total);
        });
  } else {
    // Blocks that read the same pixels follow each other.
    of_unit(number % units).run(number / units);
  }
}
