// Convolution of images of 1 to 4 channels, backward weight, of 16-bit tensors, for sm_80 and newer. Tiles of x lie in
// shared memory as windows.cuh says, those of y beside them. Sixteen neighbouring pixels of y are the depth of a product,
// its rows filters, and its columns the eight elements of a unit: what two taps meet.
//
// A block has a number of filters, a part of the units of a slice of the filter, and a run of tiles, whose sums it leaves
// in memory. A second launch adds the runs up, in their order: the same call gives the same bits. Tiles end beyond y: what
// x has there is multiplied with zeros.
//
// Configuration: as in forward.cuh, with
//   kDirection                TS_CONV_BACKWARD_WEIGHT
//   kTypeA, kTypeB            of x and y; kTypeD: of w
//   kRows, kColumns           pixels of y of a tile
//   kFilters                  a multiple of 32; kUnits: of a part, a multiple of 4
//   kWarps                    8
//   kAligned (bool)           y's channels are neighbours, a multiple of 8 of them, and pixels begin at multiples of 16
//                             bytes. Else y has any strides
//   kTapRows, kTaps           more than filters have; kEpilogueLength 0
//
// Launch: twice, with args.join 0 and then 1. args.lanes is kFilters / 2; kThreads threads; kStepBytes + max(2 *
// args.stage_bytes, kJoinBytes) of dynamic shared memory; a grid of args.splits * parts * blocks, with blocks = ceil(k /
// kFilters) and parts = filter[0] * ceil(units of a slice / kUnits). There are `splits` partials of kPartFloats for each
// of parts * blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../runs.cuh"
#include "windows.cuh"

namespace ts::conv {

constexpr int kFilterGroups = 2, kUnitGroups = cfg::kWarps / kFilterGroups;  // of warps
constexpr int kFilterSixteens = cfg::kFilters / 16 / kFilterGroups;          // of a warp
constexpr int kUnitsOfWarp = cfg::kUnits / kUnitGroups;
constexpr int kTogether = rows_together(kFilterSixteens * kUnitsOfWarp * 4, false);
constexpr int kUnitPairs = ceil_div(kUnitsOfWarp, 2);
constexpr int kPartFloats = cfg::kFilters * cfg::kUnits * 8;
constexpr int kTileOfYBytes = kResults * cfg::kFilters * kElementBytes;
static_assert(cfg::kFilters % (16 * kFilterGroups) == 0 && cfg::kUnits % kUnitGroups == 0 && cfg::kStages == 2);

struct StemWeight {
  using Sums = float[kFilterSixteens][kUnitsOfWarp][4];

  const TsCudaConvArgs& args;
  Windows windows;
  Shape shape;
  int first_filter, slice, first_unit;  // of the block; slice of the filter
  int number;                           // of these, among all blocks of a run
  unsigned char* shared;

  static TS_DEVICE int filter_group(int warp) { return warp / kUnitGroups; }
  static TS_DEVICE int unit_group(int warp) { return warp % kUnitGroups; }
  TS_DEVICE unsigned char* y_at(int stage) const { return shared + kStepBytes + stage * args.stage_bytes; }
  TS_DEVICE unsigned char* x_at(int stage) const { return y_at(stage) + kTileOfYBytes; }

  // Where the thread brings or reads eight pixels of sixteen, of a filter of the block, of y that is not aligned.
  static TS_DEVICE int eight_at(int row, int eight, int filter) {
    return ((row * 2 + eight) * cfg::kFilters + filter) * kUnitBytes;
  }
  // y with any strides: eight neighbouring pixels of a filter at a time, at once where they are 16 bytes.
  TS_DEVICE void bring_y(const Step& s, int stage) const {
    const TsConvStrides& y = args.y_strides;
    const i64 column_step = s.apart[2] * y.spatial[2];
    const i64 steps = y.batch | y.channel | y.spatial[0] | y.spatial[1] | s.at[2];
    const bool chunks =
        column_step == 1 && steps % 8 == 0 && reinterpret_cast<unsigned long long>(args.y) % kUnitBytes == 0;
    const char* const tile = static_cast<const char*>(args.y) +
                             (s.image * y.batch + s.at[0] * y.spatial[0] + s.at[1] * y.spatial[1] + s.at[2] * y.spatial[2] +
                              first_filter * y.channel) * kElementBytes;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kResults / 8 * cfg::kFilters; i += kThreads) {
      const int eight = i & 1, filter = i / 2 % cfg::kFilters, row = i / 2 / cfg::kFilters;
      const char* const from =
          tile + (row * s.apart[1] * y.spatial[1] + 8 * eight * column_step + filter * y.channel) * kElementBytes;
      const int left = row < s.results_h && first_filter + filter < args.k ? s.results_w - 8 * eight : 0;
      unsigned char* const to = y_at(stage) + eight_at(row, eight, filter);
      if (chunks && (left >= 8 || left <= 0)) {
        copy_async(smem_address(to), from, left >= 8);
      } else {
        u32 v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] = e < left ? load_bits<kElementBytes>(from + e * column_step * kElementBytes) : 0;
        *reinterpret_cast<uint4*>(to) = make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
      }
    }
  }
  TS_DEVICE void bring(const Step& s, int stage) const {
    if (s.rows == 0) return;
    if constexpr (cfg::kAligned) {
      const Pixels y{static_cast<const char*>(args.y) + first_filter * kElementBytes, args.y_strides,
                     static_cast<int>(args.y_size[1]), static_cast<int>(args.y_size[2]),
                     imin(static_cast<int>(args.k) - first_filter, cfg::kFilters)};
      copy_tile<true>(smem_address(y_at(stage)), shape, y, s.image, s.at[0], s.at[1], s.at[2], s.apart[1], s.apart[2],
                      cfg::kRows, cfg::kColumns, s.results_h, s.results_w);
    } else {
      bring_y(s, stage);
    }
    // Whole tiles: what lies in no image is zeros.
    bring_windows<kTogether>(args, windows, s, (cfg::kRows - 1) * s.row_pace + s.taps_h, x_at(stage));
  }

  // Filters by sixteen pixels, those of a row of the tile.
  TS_DEVICE void load_filters(u32 (&a)[4], int stage, int row, int first) const {
    const int inner = lane() / 8 & 1, outer = lane() / 16;
    const u32 y = smem_address(y_at(stage));
    if constexpr (cfg::kAligned) {
      const int pixel = 16 * row + 8 * outer + lane() % 8;
      constexpr int kOctets = cfg::kFilters / 8;
      const int octet = first / 8 + inner;
      load_matrices_transposed(a, y + (pixel * kOctets + (octet ^ (pixel * kOctets / 8 & (kOctets - 1)))) * kUnitBytes);
    } else {
      load_matrices(a, y + eight_at(row, outer, first + 8 * inner + lane() % 8));
    }
  }

  TS_DEVICE void multiply(const Step& s, int stage, const int (&place)[kUnitPairs], Sums& sums) const {
    const int row_bytes = windows.row_bytes(s.row_pace);
    u32 x = smem_address(x_at(stage)) + lane() % 16 * kUnitBytes;
#pragma unroll 2
    for (int row = 0; row < cfg::kRows; ++row, x += row_bytes) {
      u32 a[kFilterSixteens][4];
#pragma unroll
      for (int f = 0; f < kFilterSixteens; ++f)
        load_filters(a[f], stage, row, 16 * (filter_group(warp()) * kFilterSixteens + f));
#pragma unroll
      for (int p = 0; p < kUnitPairs; ++p) {
        u32 b[4];
        load_matrices_transposed(b, x + place[p]);
#pragma unroll
        for (int f = 0; f < kFilterSixteens; ++f) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (2 * p + e < kUnitsOfWarp)
              multiply_add(sums[f][2 * p + e], a[f][0], a[f][1], a[f][2], a[f][3], b[2 * e], b[2 * e + 1]);
          }
        }
      }
    }
  }

  TS_DEVICE void run(int run) const {
    const Run run_of_tiles = Run::of(args, run);
    Sums sums = {};
    int place[kUnitPairs];  // of the lane's unit; the sums of those that are not there go nowhere
#pragma unroll
    for (int p = 0; p < kUnitPairs; ++p)
      place[p] = imax(windows.place(first_unit + unit_group(warp()) * kUnitsOfWarp + 2 * p + lane() / 16), 0);
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int step) { return plan_step(args, shape, run_of_tiles, {slice, 0, 0}, step); },
        [&](const Step& s, int stage) { bring(s, stage); }, [] {},
        [&](const Step& s, int stage) {
          if (s.rows > 0) multiply(s, stage, place, sums);
        });
    // [filters][unit][thread][4].
    float* const to = args.partials + (static_cast<i64>(number) * args.splits + run) * kPartFloats + threadIdx.x * 4;
#pragma unroll
    for (int f = 0; f < kFilterSixteens; ++f) {
#pragma unroll
      for (int u = 0; u < kUnitsOfWarp; ++u)
        *reinterpret_cast<float4*>(to + (f * kUnitsOfWarp + u) * 4 * kThreads) =
            make_float4(sums[f][u][0], sums[f][u][1], sums[f][u][2], sums[f][u][3]);
    }
  }

  // Four sums as the tensor cores have them: columns 2q and 2q + 1 of rows g and g + 8.
  TS_DEVICE void store(int quad, const float (&total)[4]) const {
    const int thread = quad % kThreads, sum = quad / kThreads, l = thread % 32;
    const int unit = first_unit + unit_group(thread / 32) * kUnitsOfWarp + sum % kUnitsOfWarp;
    const int of_row = windows.pairs + windows.odd, h = unit / of_row, w = 2 * (unit - h * of_row);
    const int first = first_filter + 16 * (filter_group(thread / 32) * kFilterSixteens + sum / kUnitsOfWarp) + l / 4;
    const TsConvStrides& s = args.w_strides;
    constexpr int kBytes = bytes_of(cfg::kTypeD);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int element = 2 * (l % 4) + e % 2, filter = first + 8 * (e / 2), c = element % 4, tap = w + element / 4;
      if (unit >= windows.units || filter >= args.k || c >= args.c || tap >= args.filter[2]) continue;
      const i64 to =
          filter * s.batch + c * s.channel + slice * s.spatial[0] + h * s.spatial[1] + tap * s.spatial[2];
      store_bits<kBytes>(static_cast<char*>(args.out) + to * kBytes, pack_pair<cfg::kTypeD>(total[e], total[e]).words[0]);
    }
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_stem_weight
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const ts::conv::Windows windows(args);
  const int blocks = ts::ceil_div(static_cast<int>(args.k), ts::cfg::kFilters);
  const int parts = ts::ceil_div(windows.units, ts::cfg::kUnits);  // of a slice
  ts::conv::Shape shape(args);
  shape.strips = 1;  // a tile's columns are those of all warps
  const auto block_of = [&](int number) {
    const int part = number / blocks;
    return ts::conv::StemWeight{args,
                                windows,
                                shape,
                                number % blocks * ts::cfg::kFilters,
                                part / parts,
                                part % parts * ts::cfg::kUnits,
                                number,
                                dynamic_shared};
  };
  const int units = static_cast<int>(args.filter[0]) * parts * blocks, number = static_cast<int>(blockIdx.x);
  if (args.join) {
    ts::conv::join_runs(
        args, units, ts::conv::kPartFloats, dynamic_shared, [](int) { return true; },
        [&](int unit, int quad, const float(&total)[4]) { block_of(unit).store(quad, total); });
  } else {
    // Blocks that read the same pixels follow each other.
    block_of(number % units).run(number / units);
  }
}
