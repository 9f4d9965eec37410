// Forward and backward data of 3 x 3 x 3 filters with a stride of 1 by halo tiles, for Hopper (sm_90a): as data.cuh, with
// a third coordinate.
//
// A box lies in a slice of the result, and a step is the halo of one of the slices that it meets: each pixel comes to
// shared memory three times, where im2col copies bring it 27 times. Filters of all taps would not fit there; they come
// row by row of taps, through a ring of their own. What both bring is a third of what products read in the same time.
//
// Configuration: as in data.cuh, with three dimensions.
//
// Launch: as in data.cuh. Tensor maps, zero fill, 128-byte swizzle:
//   read     box {64, 10, kRows + 2, 1, 1}
//   filters  {channels of x, taps, channels of y, groups}, box {64, 1, 64, 1}
//   result   box {64, 8, kRows, 1, 1}
#pragma once

#include "boxes.cuh"

namespace ts::conv {

constexpr int kTaps = kFilter * kFilter * kFilter;
constexpr int kRowStages = 4, kRowBytes = kFilter * kTapBytes;  // of the filters' ring: a row of taps each
constexpr int kStageOffset = kRowStages * kRowBytes;
constexpr int kBarrierOffset = kStageOffset + cfg::kStages * kStageBytes;
constexpr int kBarriers = 2 * cfg::kStages + 2 * kRowStages + kConsumers;
constexpr int kSharedBytes = kBarrierOffset + round_up(8 * kBarriers, 16) + 1024;  // 1024 for aligning the base
static_assert(kSharedBytes <= 232448);

// The place of a ring that what comes `number`-th has, and the parity of its round.
template <int kPlaces>
struct RingAt {
  int index;
  u32 parity;

  explicit TS_DEVICE RingAt(int number) : index(number % kPlaces), parity(number / kPlaces & 1) {}
};
using Halo = RingAt<cfg::kStages>;
using Row = RingAt<kRowStages>;

struct HaloVolume : HaloBoxes {
  TS_DEVICE u32 stage_at(int stage) const { return base + kStageOffset + stage * kStageBytes; }
  TS_DEVICE u32 row_at(int stage) const { return base + stage * kRowBytes; }
  TS_DEVICE u32 full(int stage) const { return base + kBarrierOffset + 8 * stage; }
  TS_DEVICE u32 empty(int stage) const { return full(cfg::kStages + stage); }
  TS_DEVICE u32 row_full(int stage) const { return full(2 * cfg::kStages + stage); }
  TS_DEVICE u32 row_empty(int stage) const { return row_full(kRowStages + stage); }
  TS_DEVICE u32 turn(int warpgroup) const { return row_full(2 * kRowStages + warpgroup); }

  TS_DEVICE void init() const {
    for (int b = 0; b < kBarriers; ++b) mbarrier_init(full(b), 1);
  }

  // The block's box of a number, and the taps along the outer coordinate that meet slices there are, or one that meets
  // zeros. False behind the last.
  struct Box {
    int image, slice, row, column;
    int first_tap, taps;
  };
  TS_DEVICE bool find(int number, Box& box) const {
    const int units = args.groups * args.channel_blocks;
    const int all = static_cast<int>(blockIdx.x) / units + number * (static_cast<int>(gridDim.x) / units);
    const int along = all / args.boxes_w, up = along / args.boxes_h;
    box.column = (all - along * args.boxes_w) * kBoxColumns;
    box.row = (along - up * args.boxes_h) * cfg::kRows;
    box.image = up / args.slices;
    box.slice = up - box.image * args.slices;
    const int met = box.slice + args.first_d;
    box.first_tap = imin(imax(-met, 0), kFilter - 1);
    box.taps = imax(imin(args.read_slices - met, kFilter) - box.first_tap, 1);
    return box.image < args.images;
  }

  TS_DEVICE void produce() const {
    int halos = 0, rows = 0;
    Box box;
    for (int number = 0; find(number, box); ++number) {
      for (int d = box.first_tap; d < box.first_tap + box.taps; ++d) {
        const Halo to(halos++);
        mbarrier_wait(empty(to.index), to.parity ^ 1);
        mbarrier_expect(full(to.index), kHaloBytes);
        tma_load_5d(stage_at(to.index), &maps.read, full(to.index), group * args.read_channels,
                    box.column + args.first_w, box.row + args.first_h, box.slice + args.first_d + d, box.image);
        for (int h = 0; h < kFilter; ++h) {
          const Row row(rows++);
          mbarrier_wait(row_empty(row.index), row.parity ^ 1);
          mbarrier_expect(row_full(row.index), kRowBytes);
          for (int w = 0; w < kFilter; ++w) {
            const int tap = (d * kFilter + h) * kFilter + w, at = kForward ? tap : kTaps - 1 - tap;  // turned round
            tma_load_4d(row_at(row.index) + w * kTapBytes, &maps.filters, row_full(row.index), kForward ? 0 : channel,
                        at, kForward ? channel : 0, group);
          }
        }
      }
    }
  }

  // Adds up what a row of taps meets of a halo, from `place` on.
  static TS_DEVICE void add_row(Sums& sums, u32 row, u32 place, int accumulate) {
    const u64 filters = descriptor_k_major(uniform(row)), pixels = descriptor_of_halo(uniform(place));
    pin(sums);
    wgmma_fence();
#pragma unroll
    for (int w = 0; w < kFilter; ++w) {
#pragma unroll
      for (int k = 0; k < kBlock / 16; ++k)
        Product<kPixels>::multiply(sums, filters + (w * kTapBytes + k * (kForward ? 32 : 16 * 128)) / 16,
                                   pixels + (w * 128 + k * 32) / 16, w + k == 0 ? accumulate : 1);
    }
    wgmma_commit();
    pin(sums);
  }

  // All taps of a box whose first halo comes `halos`-th. What products have read is freed when the next ones are on
  // their way; the last halo stays.
  TS_DEVICE void multiply(int halos, int taps, Sums& sums) const {
    const bool first_thread = threadIdx.x % 128 == 0;
    for (int d = 0; d < taps; ++d) {
      const Halo halo(halos + d);
      mbarrier_wait(full(halo.index), halo.parity);
      for (int h = 0; h < kFilter; ++h) {
        const int number = (halos + d) * kFilter + h;
        const Row row(number);
        mbarrier_wait(row_full(row.index), row.parity);
        add_row(sums, row_at(row.index), stage_at(halo.index) + h * kPitch, d + h != 0);
        if (d + h == 0) continue;
        wgmma_wait<1>();
        if (first_thread) mbarrier_arrive(row_empty(Row(number - 1).index));
        if (first_thread && h == 0) mbarrier_arrive(empty(Halo(halos + d - 1).index));
      }
    }
  }

  TS_DEVICE void store(u32 stage, const Box& box) const {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&maps.result),
        "r"(stage), "r"(group * args.channels + channel), "r"(box.column), "r"(box.row), "r"(box.slice), "r"(box.image)
        : "memory");
  }

  TS_DEVICE void consume(int warpgroup) const {
    const ChannelRows place = rows();
    Operands<0, 16> operands;
    operands.load(args, place);
    int halos = 0;  // of both warpgroups' boxes
    u32 turns = warpgroup == 0;
    Box box;
    for (int number = 0; find(number, box); halos += box.taps, ++number) {
      if (number % kConsumers != warpgroup) continue;
      mbarrier_wait(turn(warpgroup), turns & 1);
      ++turns;
      Sums sums;
      multiply(halos, box.taps, sums);
      finish_box(*this, warpgroup, box, Halo(halos + box.taps - 1).index, place, operands, sums, [&] {
        mbarrier_arrive(row_empty(Row((halos + box.taps) * kFilter - 1).index));
      });
    }
    if (threadIdx.x % 128 == 0) store_wait_done();
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_halo_volume
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaConvHaloDataMaps maps, const __grid_constant__ TsCudaConvHaloDataArgs args) {
  ts::conv::run_halo<ts::conv::HaloVolume>(maps, args);
}
