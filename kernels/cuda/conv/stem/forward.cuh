// Convolution of images of 1 to 4 channels, forward, of 16-bit tensors, for sm_80 and newer: the first layer of networks
// for images. Pixels lie in shared memory with four channels each (windows.cuh), and two taps of a filter's row are half
// of what a tensor core multiplies at a time; the filters stay in shared memory.
//
// A warp has sixteens of a tile's results, by all filters of the block. Where the channels of y are neighbours, results
// are the rows of products and filters the columns; else filters are the rows, so that what a thread stores is
// neighbours along a row of pixels.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD
//   kTypeA, kTypeB            of x and of w: bf16 or f16; kTypeD: of y
//   kRows, kColumns           results of a tile; kColumns 16
//   kFilters                  of a block, a multiple of 32
//   kTilesApart (bool), false
//   kColumnsFirst (bool), true: channels first, the tiles of a row are parts of lines of memory
//   kWarps, kBlocksPerSm; kStages 2; kPace, kTapRows, kTaps: 1, asked for by files of conv/depthwise
//   kPairs (bool)             channels of y are neighbours, an even number of them, and pixels begin at multiples of
//                             two elements; of the epilogue's tensors too. Else y has any strides, and the epilogue's
//                             vectors are along rows
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for
// There is one group. x and w have any strides.
//
// Launch: args.lanes is 1. kThreads threads; dynamic shared memory of kStepBytes, 16 bytes, 4 bytes for each unit of a
// slice (even many, and whole 16 bytes), 2 * args.stage_bytes, and 16 bytes for each filter of the block by each unit; a
// grid of args.splits * ceil(k / kFilters) blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../../gemm/epilogue.cuh"
#include "windows.cuh"

namespace ts::conv {

constexpr int kSixteens = kResults / 16 / cfg::kWarps;  // of results, of a warp
constexpr int kFilterSixteens = cfg::kFilters / 16;
constexpr int kTogether = rows_together(kSixteens * kFilterSixteens * 8, !cfg::kPairs || cfg::kEpilogueLength > 2);
static_assert(kResults % (16 * cfg::kWarps) == 0 && cfg::kFilters % 32 == 0 && cfg::kStages == 2);

// Two results of a column's rows or, where filters are rows, two filters of a row of pixels, as gemm/epilogue.cuh asks
// for places.
struct StemPlace {
  int row, column;
  int row_limit, column_limit;
  int image, at[3];
  int apart;  // of neighbouring results of a row

  TS_DEVICE i64 offset(const TsConvStrides& s, int columns_on) const {
    return image * s.batch + at[0] * s.spatial[0] + at[1] * s.spatial[1] + (at[2] + columns_on * apart) * s.spatial[2];
  }
  TS_DEVICE i64 entry_n(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 entry(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int r, int at_column) const {
    return in_tensor(o.strides, r, at_column);
  }
  TS_DEVICE i64 in_tensor(const TsConvStrides& s, int r, int at_column) const {
    if constexpr (cfg::kPairs) return offset(s, 8 * r) + at_column;
    return offset(s, at_column) + (row + 8 * r) * s.channel;
  }
  TS_DEVICE i64 column_step(const TsCudaConvOperand& o) const { return cfg::kPairs ? 1 : apart * o.strides.spatial[2]; }
};

struct StemForward {
  using Sums = float[kSixteens][kFilterSixteens][2][4];

  const TsCudaConvArgs& args;
  Windows windows;
  Shape shape;
  int first_filter;  // of the block
  unsigned char* shared;

  TS_DEVICE unsigned char* zeros() const { return shared + kStepBytes; }
  TS_DEVICE int* places() const { return reinterpret_cast<int*>(zeros() + kUnitBytes); }
  TS_DEVICE unsigned char* stage_at(int stage) const {
    return zeros() + kUnitBytes + ceil_div(4 * windows.units_of_slice(), 16) * 16 + stage * args.stage_bytes;
  }
  TS_DEVICE unsigned char* weights() const { return stage_at(2); }

  // The places of a result's units; what is multiplied with the last of an odd number of them; the filters: [slice]
  // [unit][filter].
  TS_DEVICE void prepare() const {
    const int units = windows.units_of_slice(), channels = static_cast<int>(args.c);
    for (int i = static_cast<int>(threadIdx.x); i < units; i += kThreads) places()[i] = windows.place(i);
    if (threadIdx.x == 0) *reinterpret_cast<uint4*>(zeros()) = make_uint4(0, 0, 0, 0);
    const TsConvStrides& s = args.w_strides;
    const int of_row = windows.pairs + windows.odd, filter_w = static_cast<int>(args.filter[2]);
    const int all = static_cast<int>(args.filter[0]) * units * cfg::kFilters;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += kThreads) {
      const int filter = i % cfg::kFilters, number = i / cfg::kFilters, d = number / units, unit = number - d * units;
      const int h = unit / of_row, w = 2 * (unit - h * of_row);
      const char* const from =
          static_cast<const char*>(args.w) +
          ((first_filter + filter) * s.batch + d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2]) * kElementBytes;
      const bool there = first_filter + filter < args.k && unit < windows.units;
      u32 v[8];
#pragma unroll
      for (int e = 0; e < 8; ++e)
        v[e] = there && w + e / 4 < filter_w && e % 4 < channels
                   ? load_bits<kElementBytes>(from + (e / 4 * s.spatial[2] + e % 4 * s.channel) * kElementBytes)
                   : 0;
      *reinterpret_cast<uint4*>(weights() + i * kUnitBytes) =
          make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
    }
  }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const int row = windows.row_bytes(s.row_pace);
    const u32 results = smem_address(stage_at(stage)) + warp() * kSixteens * row + lane() % 16 * kUnitBytes;
    const int units = windows.units_of_slice(), slice = s.tap / (s.taps_h * s.taps_w);
    // Of the four matrices of a load: of results their eights change first, then the units; of filters the units do.
    const int unit_of_results = lane() / 16, unit_of_filters = lane() / 8 & 1;
    u32 filters = smem_address(weights()) +
                  ((slice * units + unit_of_filters) * cfg::kFilters + lane() / 16 * 8 + lane() % 8) * kUnitBytes;
    const int* place = places() + unit_of_results;
#pragma unroll 2
    for (int unit = 0; unit < units; unit += 2) {
      const int at = place[unit];
      u32 a[kSixteens][4];
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) load_matrices(a[m], at < 0 ? smem_address(zeros()) : results + at + m * row);
#pragma unroll
      for (int p = 0; p < kFilterSixteens; ++p) {
        u32 b[4];
        load_matrices(b, filters + p * 16 * kUnitBytes);
#pragma unroll
        for (int m = 0; m < kSixteens; ++m) {
          if constexpr (cfg::kPairs) {
            multiply_add(sums[m][p][0], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
            multiply_add(sums[m][p][1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
          } else {
            multiply_add(sums[m][p][0], b[0], b[2], b[1], b[3], a[m][0], a[m][2]);
            multiply_add(sums[m][p][1], b[0], b[2], b[1], b[3], a[m][1], a[m][3]);
          }
        }
      }
      filters += 2 * cfg::kFilters * kUnitBytes;
    }
  }

  // Two octets of columns, of one of the thread's two rows: from column 0 of the row on, at `to`. `together`: elements
  // that may be stored at once; lanes exchange theirs for four of 16 bits, and those of neighbouring filters for two, so
  // that a row's 32 bytes go together. `step`, `filter_step`: bytes from a column and from a filter to the next.
  TS_DEVICE void store(char* to, int column, int left, i64 step, i64 filter_step, int together, const float (&low)[2],
                       const float (&high)[2]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const auto first = pack_pair<cfg::kTypeD>(low[0], low[1]), second = pack_pair<cfg::kTypeD>(high[0], high[1]);
    if (kBytes == 2 && together == 4) {
      u32 words[2] = {first.words[0], second.words[0]};
      pair_exchange(words[0], words[1]);
      const int on = 8 * (lane() & 1) + 4 * (lane() >> 1 & 1) - 2 * (lane() & 3);  // columns, after the exchange
      if (left - on >= 4) store_8_bytes(to + (column + on) * 2, words[0], words[1]);
    } else if (kBytes == 2 && !cfg::kPairs && together == 2) {
      const bool odd = lane() & 4;
      Pair<cfg::kTypeD> of_even = first, of_odd = second;  // filters
      const u32 received = __shfl_xor_sync(0xffffffffu, (odd ? first : second).words[0], 4);
      const int received_left = __shfl_xor_sync(0xffffffffu, left, 4);
      (odd ? of_even : of_odd).words[0] = received;
      char* const even = to + (column + 8 * odd) * kBytes - (odd ? filter_step : 0);
      store_pair<cfg::kTypeD, true>(even, of_even, (odd ? received_left : left) - 8 * odd);
      store_pair<cfg::kTypeD, true>(even + filter_step, of_odd, (odd ? left : received_left) - 8 * odd);
    } else if (cfg::kPairs || together > 1) {
      store_pair<cfg::kTypeD, true>(to + column * step, first, left, step);
      store_pair<cfg::kTypeD, true>(to + (column + 8) * step, second, left - 8, step);
    } else {
      store_pair<cfg::kTypeD, false>(to + column * step, first, left, step);
      store_pair<cfg::kTypeD, false>(to + (column + 8) * step, second, left - 8, step);
    }
  }

  // How many of y's elements go at a time, 4, 2 or 1: as many of a row or of a pixel's channels are neighbours, and whole.
  TS_DEVICE int stored_together(const Step& s) const {
    if (cfg::kPairs) return args.k % 4 == 0 ? 4 : 2;
    const TsConvStrides& y = args.y_strides;
    if (s.apart[2] != 1 || y.spatial[2] != 1) return 1;
    const i64 steps = y.batch | y.spatial[0] | y.spatial[1] | y.channel | args.y_size[2] |
                      reinterpret_cast<unsigned long long>(args.out) / bytes_of(cfg::kTypeD);
    return steps % 4 == 0 ? 4 : steps % 2 == 0 ? 2 : 1;
  }

  TS_DEVICE void finish(const Step& s, const Sums& sums) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const TsConvStrides& y = args.y_strides;
    const int together = stored_together(s);
    const int along = cfg::kPairs ? lane() / 4 : 2 * (lane() & 3);  // the thread's first result of a row
    const i64 step = cfg::kPairs ? kBytes : s.apart[2] * y.spatial[2] * kBytes;
    // Of a pixel's row, that of the thread's second row as well.
    char* to = static_cast<char*>(args.out) +
               (s.image * y.batch + s.at[0] * y.spatial[0] + (s.at[1] + warp() * kSixteens * s.apart[1]) * y.spatial[1] +
                (s.at[2] + (cfg::kPairs ? along * s.apart[2] : 0)) * y.spatial[2]) * kBytes;
    const i64 second = (cfg::kPairs ? 8 * s.apart[2] * y.spatial[2] : 8 * y.channel) * kBytes;
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      const int row = warp() * kSixteens + m;
      if (row >= s.results_h) break;
#pragma unroll
      for (int p = 0; p < kFilterSixteens; ++p) {
        int filter = first_filter + 16 * p + (cfg::kPairs ? 2 * (lane() & 3) : lane() / 4);
        // Along rows of filters each sixteen finds its places in the epilogue's vectors anew: those of all together took
        // 12 bytes more than the registers of 256 x 32 and 128 x 32 with a bias (ptxas 13.0).
        if (!cfg::kPairs && cfg::kEpilogueLength > 0) asm volatile("" : "+r"(filter));
        const int rows = cfg::kPairs ? s.results_w - along : static_cast<int>(args.k) - filter;
        const int columns = cfg::kPairs ? static_cast<int>(args.k) - filter : s.results_w - along;
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] = sums[m][p][e / 4][e % 4];
        if constexpr (cfg::kEpilogueLength > 0) {
          const StemPlace place{cfg::kPairs ? 0 : filter,
                                cfg::kPairs ? filter : along,
                                cfg::kPairs ? rows : static_cast<int>(args.k),
                                cfg::kPairs ? static_cast<int>(args.k) : s.results_w,
                                s.image,
                                {s.at[0], s.at[1] + row * s.apart[1], s.at[2] + (cfg::kPairs ? along * s.apart[2] : 0)},
                                s.apart[2]};
          Operands<0, 16> operands;
          operands.load(args, place);
          operands.apply(args, place, v, {});
        }
        char* const of_filter = to + (cfg::kPairs ? 0 : filter * y.channel * kBytes);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          store(of_filter + r * second, cfg::kPairs ? filter : along, 8 * r < rows ? columns : 0, step,
                y.channel * kBytes, together, {v[2 * r], v[2 * r + 1]}, {v[4 + 2 * r], v[5 + 2 * r]});
      }
      to += s.apart[1] * y.spatial[1] * kBytes;
    }
  }

  TS_DEVICE void run(int number) const {
    const Run run_of_tiles = Run::of(args, number);
    Sums sums;
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int step) { return plan_step(args, shape, run_of_tiles, {}, step); },
        [&](const Step& s, int stage) { bring_windows<kTogether>(args, windows, s, s.rows, stage_at(stage)); },
        [&] { prepare(); },
        [&](const Step& s, int stage) {
          if (s.first) {
#pragma unroll
            for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
              for (int e = 0; e < 8 * kFilterSixteens; ++e) sums[m][e / 8][e / 4 % 2][e % 4] = 0.0f;
            }
          }
          if (s.rows > 0) multiply(s, stage, sums);
          if (s.last) finish(s, sums);
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_stem
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const int blocks = ts::ceil_div(static_cast<int>(args.k), ts::cfg::kFilters), number = static_cast<int>(blockIdx.x);
  ts::conv::Shape shape(args);
  shape.strips = 1;  // a tile's columns are those of all warps
  const ts::conv::StemForward kernel{args, ts::conv::Windows(args), shape, number % blocks * ts::cfg::kFilters,
                                     dynamic_shared};
  kernel.run(number / blocks);
}
