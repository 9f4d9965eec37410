// Convolution of images of 1 to 4 channels, forward, of 16-bit tensors, for sm_80 and newer: the first layer of networks
// for images. Rows of pixels lie in shared memory as they lie in x (lines.cuh), and a tensor core reads what a row of the
// filter meets in pairs of elements; the filters stay in shared memory.
//
// A warp has sixteens of a tile's results, by all filters of the block. Where the channels of y are neighbours, results
// are the rows of products and filters the columns, of which a thread has eight neighbours of 32; else filters are the
// rows, so that what a thread stores is neighbours along a row of pixels.
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
// Launch: args.lanes is 1. kThreads threads; dynamic shared memory of kStepBytes, kWorkBytes, 32 bytes for each unit of a
// slice (even many), 2 * args.stage_bytes, and 16 bytes for each filter of the block by each unit; a grid of
// args.splits * ceil(k / kFilters) blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../octet_results.cuh"
#include "lines.cuh"

namespace ts::conv {

constexpr int kSixteens = kResults / 16 / cfg::kWarps;  // of results, of a warp
constexpr int kFilterSixteens = cfg::kFilters / 16;
constexpr int kTogether = rows_together(kSixteens * kFilterSixteens * 8, cfg::kEpilogueLength > (cfg::kPairs ? 2 : 0));
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
  const Lines& lines;
  const Run& tiles;
  int first_filter;  // of the block
  unsigned char* shared;

  TS_DEVICE uint2* places() const { return reinterpret_cast<uint2*>(shared + kStepBytes + kWorkBytes); }
  TS_DEVICE unsigned char* stage_at(int stage) const {
    return shared + kStepBytes + kWorkBytes + 8 * kPairsOfUnit * lines.units + stage * args.stage_bytes;
  }
  TS_DEVICE unsigned char* weights() const { return stage_at(2); }

  static TS_DEVICE int column_of(int filter) { return cfg::kPairs ? dealt_column(filter) : filter; }

  // The places of a result's pairs; the filters: [slice][unit][filter].
  TS_DEVICE void prepare() const {
    for (int i = static_cast<int>(threadIdx.x); i < kPairsOfUnit * lines.units; i += kThreads)
      places()[i] = lines.place(args, i);
    // A thread has the same element of each of its filters, of many of which the loads are under way.
    constexpr int kUnderWay = 16;
    const int elements = 2 * kPairsOfUnit * lines.units, all = static_cast<int>(args.filter[0]) * elements;
    const int together = imax(kThreads / all, 1), begin = all <= kThreads ? static_cast<int>(threadIdx.x) / all : 0;
    if (begin >= together) return;
    const i64 filter_step = args.w_strides.batch * kElementBytes;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) - begin * all; i < all; i += kThreads) {
      const int d = i / elements, element = i - d * elements;
      i64 place;
      const bool there = lines.filter_place(args, element / 2, element % 2, place);
      const char* const from = static_cast<const char*>(args.w) + (place + d * args.w_strides.spatial[0]) * kElementBytes;
      unsigned char* const to = weights() + (i / 8 * cfg::kFilters) * kUnitBytes + i % 8 * kElementBytes;
#pragma unroll 1
      for (int f = begin; f < cfg::kFilters; f += kUnderWay * together) {
        u32 v[kUnderWay];
#pragma unroll
        for (int t = 0; t < kUnderWay; ++t) {
          const int filter = first_filter + f + t * together;
          v[t] = there && f + t * together < cfg::kFilters && filter < args.k
                     ? load_bits<kElementBytes>(from + filter * filter_step) : 0;
        }
#pragma unroll
        for (int t = 0; t < kUnderWay; ++t) {
          if (f + t * together < cfg::kFilters)
            *reinterpret_cast<unsigned short*>(to + column_of(f + t * together) * kUnitBytes) =
                static_cast<unsigned short>(v[t]);
        }
      }
    }
  }

  // A pair of a result; `shift` of those that lie across two words is 16.
  template <bool kAcross>
  static TS_DEVICE u32 load_pair(const unsigned char* at, u32 shift) {
    const u32* const word = reinterpret_cast<const u32*>(at);
    return kAcross ? __funnelshift_r(word[0], word[1], shift) : word[0];
  }

  template <bool kAcross>
  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const int row = lines.row_bytes(s.row_pace), along = lines.result_bytes();
    const u32 shift = kAcross ? (lane() / 4 & 1) * 16 : 0;
    const unsigned char* const results = stage_at(stage) + warp() * kSixteens * row + lane() / 4 * along - shift / 8;
    const int slice = s.tap / (s.taps_h * s.taps_w);
    // Of the four matrices of a load of filters, units change first, then eights of filters.
    u32 filters = smem_address(weights()) +
                  ((slice * lines.units + (lane() / 8 & 1)) * cfg::kFilters + lane() / 16 * 8 + lane() % 8) * kUnitBytes;
    const uint2* place = places() + lane() % 4;
#pragma unroll(cfg::kPairs ? 2 : 1)
    for (int unit = 0; unit < lines.units; unit += 2, place += 2 * kPairsOfUnit) {
      u32 a[kSixteens][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 at = place[half * kPairsOfUnit];
        const unsigned char* first = results + static_cast<int>(at.x);
#pragma unroll
        for (int m = 0; m < kSixteens; ++m, first += row) {
#pragma unroll
          for (int r = 0; r < 2; ++r)
            a[m][2 * half + r] = load_pair<kAcross>(first + r * 8 * along, shift) & at.y;
        }
      }
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

  // Of one of the thread's two filters, two octets of neighbours along a row of pixels, from the row's first on, at `to`.
  // `together`: elements that may be stored at once; lanes exchange theirs for four of 16 bits, and those of neighbouring
  // filters for two, so that a row's 32 bytes go together. `step`, `filter_step`: bytes from a result and from a filter
  // to the next.
  TS_DEVICE void store(char* to, int column, int left, i64 step, i64 filter_step, int together, const float (&low)[2],
                       const float (&high)[2]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const auto first = pack_pair<cfg::kTypeD>(low[0], low[1]), second = pack_pair<cfg::kTypeD>(high[0], high[1]);
    if (kBytes == 2 && together == 4) {
      u32 words[2] = {first.words[0], second.words[0]};
      pair_exchange(words[0], words[1]);
      const int on = 8 * (lane() & 1) + 4 * (lane() >> 1 & 1) - 2 * (lane() & 3);  // columns, after the exchange
      if (left - on >= 4) store_8_bytes(to + (column + on) * 2, words[0], words[1]);
    } else if (kBytes == 2 && together == 2) {
      const bool odd = lane() & 4;
      Pair<cfg::kTypeD> of_even = first, of_odd = second;  // filters
      const u32 received = __shfl_xor_sync(0xffffffffu, (odd ? first : second).words[0], 4);
      const int received_left = __shfl_xor_sync(0xffffffffu, left, 4);
      (odd ? of_even : of_odd).words[0] = received;
      char* const even = to + (column + 8 * odd) * kBytes - (odd ? filter_step : 0);
      store_pair<cfg::kTypeD, true>(even, of_even, (odd ? received_left : left) - 8 * odd);
      store_pair<cfg::kTypeD, true>(even + filter_step, of_odd, (odd ? left : received_left) - 8 * odd);
    } else if (together > 1) {
      store_pair<cfg::kTypeD, true>(to + column * step, first, left, step);
      store_pair<cfg::kTypeD, true>(to + (column + 8) * step, second, left - 8, step);
    } else {
      store_pair<cfg::kTypeD, false>(to + column * step, first, left, step);
      store_pair<cfg::kTypeD, false>(to + (column + 8) * step, second, left - 8, step);
    }
  }

  // How many of a row's elements go at a time, 4, 2 or 1: as many as are neighbours, and whole.
  TS_DEVICE int stored_together(const Step& s) const {
    const TsConvStrides& y = args.y_strides;
    if (s.apart[2] != 1 || y.spatial[2] != 1) return 1;
    const i64 steps = y.batch | y.spatial[0] | y.spatial[1] | y.channel | args.y_size[2] |
                      reinterpret_cast<unsigned long long>(args.out) / bytes_of(cfg::kTypeD);
    return steps % 4 == 0 ? 4 : steps % 2 == 0 ? 2 : 1;
  }

  // The place in y of the first filter's result in column `along` of a row of the warp's.
  TS_DEVICE char* first_result(const Step& s, int m, int along) const {
    const TsConvStrides& y = args.y_strides;
    return static_cast<char*>(args.out) +
           (s.image * y.batch + s.at[0] * y.spatial[0] + (s.at[1] + (warp() * kSixteens + m) * s.apart[1]) * y.spatial[1] +
            (s.at[2] + along * s.apart[2]) * y.spatial[2]) * bytes_of(cfg::kTypeD);
  }

  // Filters are rows.
  TS_DEVICE void finish_rows(const Step& s, const Sums& sums) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const TsConvStrides& y = args.y_strides;
    const int together = stored_together(s);
    const int along = 2 * (lane() & 3);  // the thread's first result of a row
    const i64 step = s.apart[2] * y.spatial[2] * kBytes, filter_step = y.channel * kBytes;
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      const int row = warp() * kSixteens + m;
      if (row >= s.results_h) break;
      char* const to = first_result(s, m, 0);
#pragma unroll
      for (int p = 0; p < kFilterSixteens; ++p) {
        int own = lane();
        // Each sixteen finds its places anew: those of all together take more than the registers (ptxas 13.0).
        asm volatile("" : "+r"(own));
        int filter = first_filter + 16 * p + own / 4;
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] = sums[m][p][e / 4][e % 4];
        if constexpr (cfg::kEpilogueLength > 0) {
          const StemPlace place{filter,      along,
                                static_cast<int>(args.k), s.results_w,
                                s.image,     {s.at[0], s.at[1] + row * s.apart[1], s.at[2]},
                                s.apart[2]};
          Operands<0, 16> operands;
          operands.load(args, place);
          operands.apply(args, place, v, {});
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          int column = along;
          asm volatile("" : "+r"(column), "+r"(filter));
          store(to + (filter + 8 * r) * filter_step, column,
                filter + 8 * r < static_cast<int>(args.k) ? s.results_w - along : 0, step, filter_step, together,
                {v[2 * r], v[2 * r + 1]}, {v[4 + 2 * r], v[5 + 2 * r]});
        }
      }
    }
  }

  // Filters are columns: of each of its two pixels a thread has eight neighbours of each 32.
  TS_DEVICE void finish_octets(const Step& s, const Sums& sums) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const TsConvStrides& y = args.y_strides;
    const i64 steps = args.k | y.batch | y.spatial[0] | y.spatial[1] | y.spatial[2] |
                      reinterpret_cast<unsigned long long>(args.out) / kBytes;
    const bool whole = steps % 8 == 0;
    const int along = lane() / 4, first = first_filter + 8 * (lane() & 3);
    const i64 second = 8 * s.apart[2] * y.spatial[2] * kBytes;
    char* to = first_result(s, 0, along) + first * kBytes;
#pragma unroll
    for (int m = 0; m < kSixteens; ++m, to += s.apart[1] * y.spatial[1] * kBytes) {
      const int row = warp() * kSixteens + m;
      if (row >= s.results_h) break;
#pragma unroll
      for (int q = 0; q < kFilterSixteens / 2; ++q) {
        int filter = first + 32 * q;
        if (cfg::kEpilogueLength > 0) asm volatile("" : "+r"(filter));  // as above
        const int left = static_cast<int>(args.k) - filter;
        const OctetResults results(args,
                                   StemPlace{0,
                                             filter,
                                             s.results_w - along,
                                             static_cast<int>(args.k),
                                             s.image,
                                             {s.at[0], s.at[1] + row * s.apart[1], s.at[2] + along * s.apart[2]},
                                             s.apart[2]},
                                   sums[m] + 2 * q);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          results.store(r, to + r * second + 32 * q * kBytes, along + 8 * r < s.results_w ? left : 0, whole);
      }
    }
  }

  TS_DEVICE void run() const {
    Sums sums;
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int step) { return plan_step(args, Shape::whole(args), tiles, {}, step); },
        [&](const Step& s, int stage) { lines.bring<kTogether>(args, s, s.rows, stage_at(stage)); },
        [&] { prepare(); },
        [&](const Step& s, int stage) {
          if (s.first) {
#pragma unroll
            for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
              for (int e = 0; e < 8 * kFilterSixteens; ++e) sums[m][e / 8][e / 4 % 2][e % 4] = 0.0f;
            }
          }
          if (s.rows > 0 && lines.across()) multiply<true>(s, stage, sums);
          if (s.rows > 0 && !lines.across()) multiply<false>(s, stage, sums);
          if (!s.last) return;
          if constexpr (cfg::kPairs)
            finish_octets(s, sums);
          else
            finish_rows(s, sums);
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
  const ts::conv::Work& work = ts::conv::block_work(args, number / blocks, 0, 0, dynamic_shared);
  ts::conv::StemForward{args, work.lines, work.run, number % blocks * ts::cfg::kFilters, dynamic_shared}.run();
}
