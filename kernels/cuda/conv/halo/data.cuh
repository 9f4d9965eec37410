// Forward and backward data of 3 x 3 filters with a stride of 1 by halo tiles, for Hopper (sm_90a).
//
// A step is a box of 8 x kRows pixels of the result, and all pixels that its taps meet: a box with a border, the halo. A
// tap is another place in it (weight.cuh), so each pixel comes to shared memory once for all taps, where im2col copies
// bring it nine times. At most 64 channels are read, so a block keeps the filters of its 64 channels of the result in
// shared memory, and only pixels come.
//
// Products are transposed: filters are the rows of tensor cores, and pixels the columns, which are many. So 80 bytes of
// shared memory are read in a clock of products, where 64 columns of filters would take all of its 128.
//
// Two warpgroups take boxes by turns: one multiplies while the other brings its results to memory. They go through the
// stage that the box came in.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA (= kTypeB)         of what is read: bf16 or f16; kTypeD: of the result, one of these
//   kRows                     of a box of pixels: 14 to 32, an even number
//   kStages                   at least 3
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for; channels are rows of the
//   epilogue, which reads no tensors. kRowMajorA: filters lie along what is summed up (forward); column-major b
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory; blocks of 64 channels of the result, of all groups,
// times any number of blocks. Tensor maps, zero fill, 128-byte swizzle:
//   read     box {64, 10, kRows + 2, 1}
//   filters  {channels of x, taps, channels of y, groups}, box {64, 1, 64, 1}
//   result   box {64, 8, kRows, 1}
// Channels are neighbours, pixels begin at multiples of 16 bytes. With more than one group, those of the result are whole
// blocks of 64, and as many are read.
#pragma once

#include "boxes.cuh"

namespace ts::conv {

constexpr int kTaps = kFilter * kFilter, kFilterBytes = kTaps * kTapBytes;
constexpr int kStageOffset = kFilterBytes;
constexpr int kBarrierOffset = kStageOffset + cfg::kStages * kStageBytes;
constexpr int kBarriers = 2 * cfg::kStages + kConsumers + 1;
constexpr int kSharedBytes = kBarrierOffset + round_up(8 * kBarriers, 16) + 1024;  // 1024 for aligning the base
static_assert(kSharedBytes <= 232448);

struct HaloData : HaloBoxes {
  TS_DEVICE u32 stage_at(int stage) const { return base + kStageOffset + stage * kStageBytes; }
  TS_DEVICE u32 full(int stage) const { return base + kBarrierOffset + 8 * stage; }
  TS_DEVICE u32 empty(int stage) const { return full(cfg::kStages + stage); }
  TS_DEVICE u32 turn(int warpgroup) const { return full(2 * cfg::kStages + warpgroup); }
  TS_DEVICE u32 filters() const { return full(2 * cfg::kStages + kConsumers); }

  TS_DEVICE void init() const {
    for (int s = 0; s < cfg::kStages; ++s) {
      mbarrier_init(full(s), 1);
      mbarrier_init(empty(s), 1);
    }
    for (int w = 0; w < kConsumers; ++w) mbarrier_init(turn(w), 1);
    mbarrier_init(filters(), 1);
  }

  // The block's box of a number: false behind the last.
  struct Box {
    int image, row, column;
  };
  TS_DEVICE bool find(int number, Box& box) const {
    const int units = args.groups * args.channel_blocks;
    const int all = static_cast<int>(blockIdx.x) / units + number * (static_cast<int>(gridDim.x) / units);
    const int along = all / args.boxes_w;
    box.column = (all - along * args.boxes_w) * kBoxColumns;
    box.image = along / args.boxes_h;
    box.row = (along - box.image * args.boxes_h) * cfg::kRows;
    return box.image < args.images;
  }

  TS_DEVICE void produce() const {
    mbarrier_expect(filters(), kFilterBytes);
#pragma unroll 1
    for (int tap = 0; tap < kTaps; ++tap)
      tma_load_4d(base + tap * kTapBytes, &maps.filters, filters(), kForward ? 0 : channel, tap,
                  kForward ? channel : 0, group);
    int stage = 0;
    u32 phase = 0;
    Box box;
    for (int number = 0; find(number, box); ++number) {
      mbarrier_wait(empty(stage), phase ^ 1);
      mbarrier_expect(full(stage), kHaloBytes);
      tma_load_4d(stage_at(stage), &maps.read, full(stage), group * args.read_channels, box.column + args.first_w,
                  box.row + args.first_h, box.image);
      if (++stage == cfg::kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }

  TS_DEVICE void multiply(u32 stage, Sums& sums) const {
    const u64 w = descriptor_k_major(uniform(base)), pixels = descriptor_of_halo(uniform(stage));
    pin(sums);
    wgmma_fence();
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const int h = tap / kFilter, at = kForward ? tap : kTaps - 1 - tap;  // backward data: the taps turned round
      const int place = h * kPitch + (tap - h * kFilter) * 128;
#pragma unroll
      for (int k = 0; k < kBlock / 16; ++k)
        Product<kPixels>::multiply(sums, w + (at * kTapBytes + k * (kForward ? 32 : 16 * 128)) / 16,
                                   pixels + (place + k * 32) / 16, tap + k != 0);
    }
    wgmma_commit();
    pin(sums);
  }

  TS_DEVICE void store(u32 stage, const Box& box) const {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&maps.result),
        "r"(stage), "r"(group * args.channels + channel), "r"(box.column), "r"(box.row), "r"(box.image)
        : "memory");
  }

  TS_DEVICE void consume(int warpgroup) const {
    const ChannelRows place = rows();
    Operands<0, 16> operands;
    operands.load(args, place);
    int stage = warpgroup;
    u32 phase = 0, turns = warpgroup == 0;
    Box box;
    mbarrier_wait(filters(), 0);
    for (int number = warpgroup; find(number, box); number += kConsumers) {
      mbarrier_wait(full(stage), phase);
      mbarrier_wait(turn(warpgroup), turns & 1);
      ++turns;
      Sums sums;
      multiply(stage_at(stage), sums);
      finish_box(*this, warpgroup, box, stage, place, operands, sums, [] {});
      stage += kConsumers;
      if (stage >= cfg::kStages) {
        stage -= cfg::kStages;
        phase ^= 1;
      }
    }
    if (threadIdx.x % 128 == 0) store_wait_done();
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_halo_data
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaConvHaloDataMaps maps, const __grid_constant__ TsCudaConvHaloDataArgs args) {
  ts::conv::run_halo<ts::conv::HaloData>(maps, args);
}
