// Convolution in groups of 2, 4, 8 or 16 channels to as many, backward weight, of 16-bit tensors, for sm_80 and newer.
// Tiles of pixels of x and of y lie in shared memory, and a tap is another address in that of x, as in data.cuh. Sixteen
// pixels are the depth of a product; its columns are an octet of y's channels. Its rows are, of groups of 16, both octets
// of x at one tap; of smaller groups one octet of x at two taps. So no product is of two groups alone but for groups of
// 2 and 4, which share an octet: what two of them have together is not stored.
//
// A block has a part of the filter and a run of tiles, whose sums it leaves in memory. A second launch adds the runs up,
// in their order: the same call gives the same bits.
//
// Configuration: as in data.cuh, with
//   kDirection                TS_CONV_BACKWARD_WEIGHT
//   kTypeA                    of x and y; kTypeB the same
//   kRows, kColumns           pixels of y of a tile
//   kTapRows, kTaps           the part of a filter
//   kEpilogueLength           0
// Channels lie as data.cuh says, of x and y; w has any strides.
//
// Launch: twice, with args.join 0 and then 1. args.lanes is 32; kThreads threads; kStepBytes + max(kStages *
// args.stage_bytes, kTailBytes) of dynamic shared memory; a grid of args.splits * parts * blocks, with blocks =
// ceil(channels / 64) and parts as in depthwise/weight.cuh. There are `splits` partials of kPartFloats for each of parts
// * blocks.
#pragma once

#include "../../common/launch.cuh"
#include "filter_sums.cuh"

namespace ts::conv {

static_assert(kResults % (16 * kTeams) == 0, "results are taken in sixteens");

struct GroupedWeight {
  using Sums = FilterSums::Sums;

  const TsCudaConvArgs& args;
  Shape shape;
  FilterSums filter;  // the block's
  unsigned char* shared;

  TS_DEVICE unsigned char* stage_at(int stage) const { return shared + kStepBytes + stage * args.stage_bytes; }
  // y's tile lies at the end of a stage.
  TS_DEVICE unsigned char* y_at(int stage) const { return stage_at(stage + 1) - kResults * 128; }
  TS_DEVICE Pixels pixels_of(const void* data, const TsConvStrides& s, const long long (&size)[3]) const {
    return {static_cast<const char*>(data) + filter.first_channel * kElementBytes, s, static_cast<int>(size[1]),
            static_cast<int>(size[2]), imin(filter.all_channels() - filter.first_channel, 2 * kLanes)};
  }

  // The pixel that a tap adds; of taps that are not there, whose sums go nowhere, that of the first.
  TS_DEVICE int pixel_of_tap(const Step& s, int tap) const {
    const int h = tap / cfg::kTaps, w = tap % cfg::kTaps;
    return tap < kTapsOfPart && h < s.taps_h && w < s.taps_w ? h * s.columns + w : 0;
  }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const u32 x = smem_address(stage_at(stage)), y = smem_address(y_at(stage));
    // Of the four matrices of a load: of y's octets and eights of pixels, the latter change first; of x's the octets, or
    // taps, do.
    const int inner = lane() / 8 & 1, outer = lane() / 16;
    int tap_at[kProducts];
#pragma unroll
    for (int p = 0; p < kProducts; ++p) tap_at[p] = pixel_of_tap(s, tap_of(p, inner));
    for (int sixteen = team(); sixteen < kResults / 16; sixteen += kTeams) {
      u32 b[4];
      const int result_y = 16 * sixteen + 8 * inner + lane() % 8;
      load_matrices_transposed(b, octet_at(y, result_y, 2 * pair() + outer));
      const int result_x = 16 * sixteen + 8 * outer + lane() % 8;
      const int pixel = result_x / cfg::kColumns * s.row_pace * s.columns + result_x % cfg::kColumns * cfg::kPace;
#pragma unroll
      for (int p = 0; p < kProducts; ++p) {
        const u32 from = octet_at(x, pixel + tap_at[p], 2 * pair() + (kBothOctets ? inner : 0));
        u32 a[4];
        load_matrices_transposed(a, from);
        multiply_add(sums[0][p], a[0], a[1], a[2], a[3], b[0], b[1]);
        if constexpr (!kBothOctets) load_matrices_transposed(a, from ^ 16);
        multiply_add(sums[1][p], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
  }

  TS_DEVICE void run(int number) const {
    const Pixels x = pixels_of(args.x, args.x_strides, args.x_size);
    const Pixels y = pixels_of(args.y, args.y_strides, args.y_size);
    const Run run_of_tiles = Run::of(args, number);
    Sums sums = {};
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int step) { return plan_step(args, shape, run_of_tiles, filter.part, step); },
        [&](const Step& s, int stage) {
          if (s.rows == 0) return;
          // Whole tiles: what lies in no image is zeros.
          const int rows = (cfg::kRows - 1) * s.row_pace + s.taps_h;
          copy_tile<true>(smem_address(stage_at(stage)), shape, x, s.image, s.slice, s.row, s.column, s.row_hop,
                          s.column_hop, rows, s.columns, s.rows, s.columns_met);
          copy_tile<true>(smem_address(y_at(stage)), shape, y, s.image, s.at[0], s.at[1], s.at[2], s.apart[1], s.apart[2],
                          cfg::kRows, cfg::kColumns, s.results_h, s.results_w);
        },
        [] {},
        [&](const Step& s, int stage) {
          if (s.rows > 0) multiply(s, stage, sums);
        });
    FilterSums::join_teams(sums, shared + kStepBytes);
    filter.leave(number, sums);
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];  // octets are exchanged by a bit of the address
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  if (args.join) {
    ts::conv::join_filters(args, dynamic_shared);
  } else {
    const int number = static_cast<int>(blockIdx.x), units = ts::conv::FilterSums::units(args);
    // Blocks that read the same pixels follow each other.
    const ts::conv::GroupedWeight kernel{args, ts::conv::Shape::whole(args),
                                         ts::conv::FilterSums::of_unit(args, number % units), dynamic_shared};
    kernel.run(number / units);
  }
}
