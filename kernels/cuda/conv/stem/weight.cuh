// Convolution of images of 1 to 4 channels, backward weight, of 16-bit tensors, for sm_80 and newer. Rows of x lie in
// shared memory as lines.cuh says, tiles of y beside them. Sixteen neighbouring pixels of y are the depth of a product, its
// rows filters, and its columns elements of pairs: the first of eight pairs are one product's, the second another's.
//
// Warps share a block's sums, each with its part of the filters and units, or have the same of different rows, and add them
// up at the end.
//
// A block has a number of filters, a part of the units of a slice of the filter, and a run of tiles, whose sums it leaves
// in memory. A second launch adds the runs up, in their order: the same call gives the same bits. Tiles end beyond y: what
// x has there is multiplied with zeros.
//
// Configuration: as in forward.cuh, with
//   kDirection                TS_CONV_BACKWARD_WEIGHT
//   kTypeA, kTypeB            of x and y; kTypeD: of w
//   kRows, kColumns           pixels of y of a tile
//   kFilters                  a multiple of 32; kUnits: of a part, an even number
//   kWarps                    8
//   kAligned (bool)           y's channels are neighbours, a multiple of 8 of them, and pixels begin at multiples of 16
//                             bytes. Else y has any strides
//   kTapRows, kTaps           more than filters have; kEpilogueLength 0
//
// Launch: twice, with args.join 0 and then 1. args.lanes is kFilters / 2; kThreads threads; kStepBytes + kWorkBytes +
// max(2 * args.stage_bytes, kFoldBytes, kJoinBytes) of dynamic shared memory; a grid of args.splits * parts * blocks, with
// blocks = ceil(k / kFilters) and parts = filter[0] * ceil(units of a slice / kUnits), or a greater multiple of filter[0].
// There are `splits` partials of kPartFloats for each of parts * blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../runs.cuh"
#include "lines.cuh"

namespace ts::conv {

// A warp has at most 80 sums of a thread; beyond ten units, half of them.
constexpr int kMostSums = 80;
constexpr int kUnitGroups = cfg::kUnits > 10 ? 2 : 1;  // of warps
constexpr int kUnitPairs = cfg::kUnits / 2 / kUnitGroups;  // of a warp: eight pairs of elements
constexpr int sums_of_warp(int filter_groups) {
  return kUnitPairs * 8 * (cfg::kFilters / 16 / filter_groups);
}
constexpr int kFilterGroups = sums_of_warp(1) <= kMostSums ? 1 : sums_of_warp(2) <= kMostSums ? 2 : 4;
constexpr int kRowGroups = cfg::kWarps / kUnitGroups / kFilterGroups;
constexpr int kFilterSixteens = cfg::kFilters / 16 / kFilterGroups;  // of a warp
constexpr int kTogether = rows_together(sums_of_warp(kFilterGroups), false);
constexpr int kPartFloats = cfg::kFilters * cfg::kUnits * 8;
constexpr int kPartThreads = kThreads / kRowGroups;
constexpr int kFoldBytes = kRowGroups / 2 * kPartFloats * 4;
constexpr int kTileOfYBytes = kResults * cfg::kFilters * kElementBytes;
static_assert(cfg::kFilters % (16 * kFilterGroups) == 0 && cfg::kUnits % (2 * kUnitGroups) == 0 && cfg::kStages == 2);
static_assert(kRowGroups >= 1 && cfg::kRows % kRowGroups == 0);

struct StemWeight {
  using Sums = float[kFilterSixteens][2 * kUnitPairs][4];

  const TsCudaConvArgs& args;
  const Work& work;
  int first_filter, slice, first_unit;  // of the block; slice of the filter
  unsigned char* shared;

  static TS_DEVICE int unit_group(int warp) { return warp % kUnitGroups; }
  static TS_DEVICE int filter_group(int warp) { return warp / kUnitGroups % kFilterGroups; }
  static TS_DEVICE int row_group(int warp) { return warp / kUnitGroups / kFilterGroups; }
  TS_DEVICE unsigned char* y_at(int stage) const { return shared + kStepBytes + kWorkBytes + stage * args.stage_bytes; }
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
      copy_tile<true>(smem_address(y_at(stage)), Shape::whole(args), y, s.image, s.at[0], s.at[1], s.at[2], s.apart[1], s.apart[2],
                      cfg::kRows, cfg::kColumns, s.results_h, s.results_w);
    } else {
      bring_y(s, stage);
    }
    // Whole tiles: what lies in no image is zeros.
    work.lines.bring<kTogether>(args, s, (cfg::kRows - 1) * s.row_pace + s.taps_h, x_at(stage));
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

  // kAcross: pairs of a second pixel lie across two words.
  template <bool kAcross>
  TS_DEVICE void multiply(const Step& s, int stage, const int (&place)[kUnitPairs], Sums& sums) const {
    const int row_bytes = work.lines.row_bytes(s.row_pace), along = work.lines.result_bytes();
    const unsigned char* x = x_at(stage) + row_group(warp()) * row_bytes + 2 * (lane() % 4) * along;
#pragma unroll 1
    for (int row = row_group(warp()); row < cfg::kRows; row += kRowGroups, x += kRowGroups * row_bytes) {
      u32 a[kFilterSixteens][4];
#pragma unroll
      for (int f = 0; f < kFilterSixteens; ++f)
        load_filters(a[f], stage, row, 16 * (filter_group(warp()) * kFilterSixteens + f));
#pragma unroll
      for (int p = 0; p < kUnitPairs; ++p) {
        u32 b[2][2];  // of the elements of a pair: two neighbouring pixels, and the two that are eight on
#pragma unroll
        for (int eight = 0; eight < 2; ++eight) {
          const unsigned char* const at = x + place[p] + 8 * eight * along;
          const u32* const second = reinterpret_cast<const u32*>(at + along - 2 * kAcross);
          const u32 first = *reinterpret_cast<const u32*>(at);
          b[0][eight] = __byte_perm(first, second[0], kAcross ? 0x7610 : 0x5410);
          b[1][eight] = __byte_perm(first, second[kAcross], kAcross ? 0x5432 : 0x7632);
        }
#pragma unroll
        for (int f = 0; f < kFilterSixteens; ++f) {
#pragma unroll
          for (int e = 0; e < 2; ++e)
            multiply_add(sums[f][2 * p + e], a[f][0], a[f][1], a[f][2], a[f][3], b[e][0], b[e][1]);
        }
      }
    }
  }

  // Adds the sums of all rows to those of the first group's warps, half of the groups to the others at a time.
  TS_DEVICE void fold(Sums& sums) const {
    float4* const places = reinterpret_cast<float4*>(shared + kStepBytes + kWorkBytes);
    const int group = row_group(warp()), own = static_cast<int>(threadIdx.x) % kPartThreads;
    constexpr int kQuads = kFilterSixteens * 2 * kUnitPairs;
#pragma unroll
    for (int groups = kRowGroups / 2; groups > 0; groups /= 2) {
      __syncthreads();
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const float(&sum)[4] = sums[q / (2 * kUnitPairs)][q % (2 * kUnitPairs)];
        if (group >= groups && group < 2 * groups)
          places[((group - groups) * kQuads + q) * kPartThreads + own] = make_float4(sum[0], sum[1], sum[2], sum[3]);
      }
      __syncthreads();
      if (group >= groups) continue;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        float(&sum)[4] = sums[q / (2 * kUnitPairs)][q % (2 * kUnitPairs)];
        const float4 other = places[(group * kQuads + q) * kPartThreads + own];
        sum[0] += other.x, sum[1] += other.y, sum[2] += other.z, sum[3] += other.w;
      }
    }
  }

  // The pair whose elements column `column` of the warp's products has.
  TS_DEVICE int pair_of(int warp, int product, int column) const {
    return first_unit * kPairsOfUnit + (unit_group(warp) * kUnitPairs + product) * 8 + column;
  }

  TS_DEVICE void run() const {
    Sums sums = {};
    int place[kUnitPairs];  // of the lane's pairs; the sums of those that are not there go nowhere
#pragma unroll
    for (int p = 0; p < kUnitPairs; ++p)
      place[p] = static_cast<int>(work.lines.place(args, pair_of(warp(), p, lane() / 4)).x);
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int step) { return plan_step(args, Shape::whole(args), work.run, {work.slice, 0, 0}, step); },
        [&](const Step& s, int stage) { bring(s, stage); }, [] {},
        [&](const Step& s, int stage) {
          if (s.rows == 0) return;
          if (work.lines.across())
            multiply<true>(s, stage, place, sums);
          else
            multiply<false>(s, stage, place, sums);
        });
    fold(sums);
    if (row_group(warp()) > 0) return;
    // [filters][products][thread][4].
    float* const to = args.partials + static_cast<i64>(work.partial) * kPartFloats + threadIdx.x * 4;
#pragma unroll
    for (int f = 0; f < kFilterSixteens; ++f) {
#pragma unroll
      for (int u = 0; u < 2 * kUnitPairs; ++u)
        *reinterpret_cast<float4*>(to + (f * 2 * kUnitPairs + u) * 4 * kPartThreads) =
            make_float4(sums[f][u][0], sums[f][u][1], sums[f][u][2], sums[f][u][3]);
    }
  }

  // Four sums as the tensor cores have them: columns 2q and 2q + 1 of rows g and g + 8.
  TS_DEVICE void store(int quad, const float (&total)[4]) const {
    const int thread = quad % kPartThreads, sum = quad / kPartThreads, l = thread % 32;
    const int f = sum / (2 * kUnitPairs), product = sum - f * 2 * kUnitPairs;
    const int first = first_filter + 16 * (filter_group(thread / 32) * kFilterSixteens + f) + l / 4;
    const TsConvStrides& s = args.w_strides;
    constexpr int kBytes = bytes_of(cfg::kTypeD);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int pair = pair_of(thread / 32, product / 2, 2 * (l % 4) + e % 2), filter = first + 8 * (e / 2);
      i64 place;
      if (!work.lines.filter_place(args, pair, product % 2, place) || filter >= args.k) continue;
      const i64 to = filter * s.batch + slice * s.spatial[0] + place;
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
  const int blocks = ts::ceil_div(static_cast<int>(args.k), ts::cfg::kFilters), number = static_cast<int>(blockIdx.x);
  // Blocks that read the same pixels follow each other. The caller counts the parts of a slice, as it may not know
  // whether channels are neighbours: the last may have no units.
  const int units = static_cast<int>(gridDim.x) / args.splits;
  const int parts = units / (static_cast<int>(args.filter[0]) * blocks);
  const ts::conv::Work& work =
      ts::conv::block_work(args, number / units, number % units * args.splits + number / units,
                           number % units / blocks / parts, dynamic_shared);
  const auto block_of = [&](int number) {
    const int part = number / blocks;
    return ts::conv::StemWeight{args,
                                work,
                                number % blocks * ts::cfg::kFilters,
                                part / parts,
                                part % parts * ts::cfg::kUnits,
                                dynamic_shared};
  };
  if (args.join) {
    ts::conv::join_runs(
        args, units, ts::conv::kPartFloats, dynamic_shared + ts::conv::kStepBytes + ts::conv::kWorkBytes, [](int) { return true; },
        [&](int unit, int quad, const float(&total)[4]) { block_of(unit).store(quad, total); });
  } else {
    block_of(number % units).run();
  }
}
