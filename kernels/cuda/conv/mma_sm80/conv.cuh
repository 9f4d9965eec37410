// Convolution for sm_80 and newer as a product of gathered matrices: mma.sync, ldmatrix, cp.async. Every direction,
// size, stride, dilation, padding and layout; the templates for special cases are faster where they apply.
//
//                     rows (m)             columns (n)      depth (k)
//   forward           pixels of y          channels of y    taps x channels of x
//   backward data     pixels of a phase    channels of x    the phase's taps x channels of y
//   backward weight   channels of y        taps x channels of x    pixels of y
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; the
// numbers are those of conv/abi.h):
//   kDirection
//   kTypeA, kTypeB (the same), kTypeD
//   kRowMajorA, kRowMajorB (bool)   whether the depth is what neighbours in memory differ by: forward true, false;
//                            backward data true, true; backward weight false, true
//   kTileM, kTileN           the tile; kWarpsM, kWarpsN: warps along each, with at least 16 x 16 of it
//   kStages                  steps of 64 bytes of depth in shared memory
//   kBlocksPerSm             blocks that share an SM (bounds the registers)
//   kAligned (bool)          of the tensors that are read, channels are neighbours, and pixels, taps and groups of
//                            them begin at multiples of kRead elements (forward: of x's channels alone)
//   kRead                    elements of these that are read together: 16 bytes, or of 16-bit types 8
//   kPairs (bool)            channels of the result are neighbours, an even number of them, and pixels begin at
//                            multiples of two elements; of the epilogue's tensors and vectors too
//   kTf32x3 (bool)           float32: as in gemm/mma_sm80/gemm.cuh
//   kSplitK (bool)           the depth may be cut into args.splits parts. Those of backward weight are left in memory, and a
//                            second launch with args.join adds them up
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]
// and, for gemm's files, kScaling = TS_GEMM_SCALE_TENSOR, kClusterK = 1, and kSplitKAtomic, kMmPlusMm, kZeroPoints, kStagedTensors false.
//
// Launch: kThreads threads, kConvSharedBytes of dynamic shared memory, a grid of at most one block per work item:
//   splits * groups * phases * ceil(rows / kTileM) * ceil(columns / kTileN)
// with the rows of the largest phase. A smaller grid walks the items.
#pragma once

#include "../../common/launch.cuh"
#include "../../gemm/partials.cuh"
#include "../epilogue.cuh"
#include "../phases.cuh"
#include "../slices.cuh"
#include "gather.cuh"

namespace ts::conv {

constexpr bool kWeight = cfg::kDirection == TS_CONV_BACKWARD_WEIGHT;
constexpr bool kForward = cfg::kDirection == TS_CONV_FORWARD;
constexpr int kRowsOffset = kFlagOffset + 16;
constexpr int kConvSharedBytes = kRowsOffset + (kWeight ? 0 : 16 * cfg::kTileM);
constexpr int kPartFloats = kThreads * kBlocksM * 4 * kTilesN;

using RowsA = Axis<kWeight ? Digits::taps : Digits::pixels>;
using DepthOf = Axis<kWeight ? Digits::pixels : Digits::taps>;
using GatherA = Gather<LayoutA, cfg::kTileM, RowsA, DepthOf, !kWeight>;
using GatherB = Gather<LayoutB, cfg::kTileN, Axis<Digits::taps>, DepthOf, kWeight>;

struct Item {
  i64 tile;   // its number
  i64 row;    // the first
  int column;
  int group, phase, split;
};

struct Conv {
  const TsCudaConvArgs& args;
  u32 shared;

  TS_DEVICE const TsConvStrides& out_strides() const {
    return kForward ? args.y_strides : kWeight ? args.w_strides : args.x_strides;
  }
  TS_DEVICE int columns() const {
    return static_cast<int>(kForward ? args.k : kWeight ? args.c * args.filter[0] * args.filter[1] * args.filter[2]
                                                        : args.c);
  }
  TS_DEVICE i64 rows(const Phase& p) const { return kWeight ? args.k : args.batch * pixels_of_phase(p); }
  TS_DEVICE int steps(const Phase& p) const {
    const i64 depth = kWeight ? args.batch * pixels_of_phase(p)
                              : (kForward ? args.c : args.k) * static_cast<i64>(p.taps[0]) * p.taps[1] * p.taps[2];
    return static_cast<int>((depth + kTileK - 1) / kTileK);
  }

  // Columns first, so that what the rows read stays in the L2 cache; then rows, groups and phases.
  TS_DEVICE bool find(i64 item, i64 tiles_m, Item& it) const {
    const int splits = cfg::kSplitK ? args.splits : 1, tiles_n = ceil_div(columns(), cfg::kTileN);
    it.tile = item / splits;
    it.split = static_cast<int>(item - it.tile * splits);
    const i64 panel = it.tile / tiles_n;
    it.column = static_cast<int>(it.tile - panel * tiles_n) * cfg::kTileN;
    const i64 member = panel / tiles_m;
    it.row = (panel - member * tiles_m) * cfg::kTileM;
    it.phase = static_cast<int>(member / args.groups);
    it.group = static_cast<int>(member - it.phase * args.groups);
    return it.phase < phases_of(args);
  }

  static TS_DEVICE void ints(int (&to)[3], const long long (&from)[3], int sign = 1) {
#pragma unroll
    for (int d = 0; d < 3; ++d) to[d] = sign * static_cast<int>(from[d]);
  }

  // The pixels of the tile's rows: of the phase, and where they lie in the result.
  TS_DEVICE RowPixels find_pixels(const Item& it, const Phase& p) const {
    const RowPixels pixels{shared + kRowsOffset};
    const int size[4] = {0, p.pixels[0], p.pixels[1], p.pixels[2]};
    for (int r = threadIdx.x; r < cfg::kTileM; r += kThreads) {
      Number n = Number::of(it.row + r, size);
      if constexpr (!kForward) {
#pragma unroll
        for (int d = 0; d < 3; ++d) n.digit[d + 1] = p.first[d] + n.digit[d + 1] * static_cast<int>(args.stride[d]);
      }
      pixels.set(r, n.digit);
    }
    return pixels;
  }

  template <class A, class B>
  TS_DEVICE void start(const Item& it, const Phase& p, int step, A& a, B& b) const {
    int stride[3], dilation[3], before[3], x_size[3], y_size[3], filter[3];
    const int none[3] = {}, one[3] = {1, 1, 1};
    ints(stride, args.stride);
    ints(dilation, args.dilation);
    ints(before, args.pad, -1);
    ints(x_size, args.x_size);
    ints(y_size, args.y_size);
    ints(filter, args.filter);
    const auto base = [&](const void* data, const TsConvStrides& s) {
      return static_cast<const char*>(data) + it.group * s.group * kElementBytes;
    };
    const auto row_of = [&](const auto& axis) {
      return [&axis, &it](int i) { return axis.at(Number::of(it.row + i, axis.size)); };
    };
    const auto column_of = [&](const auto& axis) {
      return [&axis, &it](int i) { return axis.at(Number::of(it.column + i, axis.size)); };
    };
    if constexpr (kForward) {
      const auto pixels = pixel_axis(args.x_strides, args.batch, y_size, before, stride);
      const auto taps = tap_axis(args.x_strides, filter, none, dilation, args.c, args.x_strides.channel);
      a.start(base(args.x, args.x_strides), taps, x_size, step, row_of(pixels));
      const auto channels = channel_axis(args.k, args.w_strides.batch);
      const auto weights = tap_axis(args.w_strides, filter, none, one, args.c, args.w_strides.channel);
      b.start(base(args.w, args.w_strides), weights, none, step, column_of(channels));
    } else if constexpr (kWeight) {
      const auto channels = channel_axis(args.k, args.y_strides.channel);
      const auto pixels_y = pixel_axis(args.y_strides, args.batch, y_size, none, one);
      a.start(base(args.y, args.y_strides), pixels_y, none, step, row_of(channels));
      const auto taps = tap_axis(args.x_strides, filter, none, dilation, args.c, args.x_strides.channel);
      const auto pixels_x = pixel_axis(args.x_strides, args.batch, y_size, before, stride);
      b.start(base(args.x, args.x_strides), pixels_x, x_size, step, column_of(taps));
    } else {
      int back[3];
#pragma unroll
      for (int d = 0; d < 3; ++d) back[d] = -args.pixel_step[d];
      const auto pixels = pixel_axis(args.y_strides, args.batch, p.pixels, none, one);
      const auto taps = tap_axis(args.y_strides, p.taps, p.from, back, args.k, args.y_strides.channel);
      a.start(base(args.y, args.y_strides), taps, y_size, step, row_of(pixels));
      const auto channels = channel_axis(args.c, args.w_strides.channel);
      const auto weights = tap_axis(args.w_strides, p.taps, p.tap, args.tap_step, args.k, args.w_strides.batch);
      b.start(base(args.w, args.w_strides), weights, none, step, column_of(channels));
    }
  }

  // Rows of the tile that exist.
  TS_DEVICE int row_limit(const Item& it, const Phase& p) const {
    const i64 left = rows(p) - it.row;
    return left < cfg::kTileM ? static_cast<int>(left) : cfg::kTileM;
  }

  TS_DEVICE void finish(const Item& it, const Phase& p, const RowPixels& pixels,
                        const Sum (&sums)[kBlocksM][4 * kTilesN]) const {
    const int lane = threadIdx.x & 31;
    constexpr int kColumns = kWarpN % 32 == 0 ? 32 : 16;  // finished together
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int c = 0; c < kWarpN; c += kColumns) {
        const ImagePlace place{warp_row() + 16 * i + lane / 4,
                               it.column + warp_column() + c + 2 * (lane & 3),
                               row_limit(it, p),
                               columns(),
                               it.group,
                               pixels};
        Operands<0, kColumns> operands;
        operands.load(args, place);
        float v[kColumns / 2];
#pragma unroll
        for (int e = 0; e < kColumns / 2; ++e) v[e] = static_cast<float>(sums[i][c / 2 + e]);
        operands.apply(args, place, v, {});
        store_channels<kColumns>(args, out_strides(), place, v);
      }
    }
  }

  // Backward weight: a row is a channel of y, a column a tap and a channel of x. Filters as an axis of columns.
  TS_DEVICE auto filter_axis() const {
    int filter[3];
    const int none[3] = {}, one[3] = {1, 1, 1};
    ints(filter, args.filter);
    const TsConvStrides& s = args.w_strides;
    return tap_axis(s, filter, none, one, args.c, s.channel);
  }
  // Two columns from `column` on, of a row and of the one eight below: what a thread has of 16 x 8 sums.
  template <class Taps>
  TS_DEVICE void store_weights(const Item& it, const Taps& taps, int limit, int row, int column,
                               const float (&quad)[4]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const TsConvStrides& s = args.w_strides;
    char* const base = static_cast<char*>(args.out) + (it.group * s.group + it.row * s.batch) * kBytes;
    const i64 at = taps.at(Number::of(column, taps.size)).offset;
    const i64 apart = cfg::kPairs ? 0 : taps.at(Number::of(column + 1, taps.size)).offset - at;
#pragma unroll
    for (int r = 0; r < 2; ++r)
      store_pair<cfg::kTypeD, cfg::kPairs>(base + ((row + 8 * r) * s.batch + at) * kBytes,
                                           pack_pair<cfg::kTypeD>(quad[2 * r], quad[2 * r + 1]),
                                           row + 8 * r < limit ? columns() - column : 0, apart * kBytes);
  }
  TS_DEVICE void finish_weights(const Item& it, const Phase& p, const Sum (&sums)[kBlocksM][4 * kTilesN]) const {
    const int lane = threadIdx.x & 31, limit = row_limit(it, p);
    const auto taps = filter_axis();
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        float quad[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) quad[e] = static_cast<float>(sums[i][4 * j + e]);
        store_weights(it, taps, limit, warp_row() + 16 * i + lane / 4, it.column + warp_column() + 8 * j + 2 * (lane & 3),
                      quad);
      }
    }
  }

  // Backward weight whose depth is cut: the second launch, which adds up what the parts of each tile have left.
  TS_DEVICE void add_parts(i64 tiles_m, unsigned char* memory) const {
    const Phase p = phase_of(args, 0);
    const auto taps = filter_axis();
    const int tiles = static_cast<int>(tiles_m) * ceil_div(columns(), cfg::kTileN) * static_cast<int>(args.groups);
    const auto all = [](int) { return true; };
    add_slices<kThreads>(args.partials, args.splits, tiles, kPartFloats, memory, all,
                         [&](int tile, int quad, const float(&total)[4]) {
                           Item it;
                           find(static_cast<i64>(tile) * args.splits, tiles_m, it);
                           const u32 thread = static_cast<u32>(quad % kThreads);
                           const int number = quad / kThreads, lane = static_cast<int>(thread & 31);
                           store_weights(it, taps, row_limit(it, p),
                                         warp_row(thread) + number / kTilesN * 16 + lane / 4,
                                         it.column + warp_column(thread) + number % kTilesN * 8 + 2 * (lane & 3), total);
                         });
  }

  TS_DEVICE void run(unsigned char* memory) const {
    wait_for_previous_kernel();
    let_next_kernel_start();
    const i64 tiles_m = (rows(phase_of(args, 0)) + cfg::kTileM - 1) / cfg::kTileM;
    if constexpr (cfg::kSplitK && kWeight) {
      if (args.join) return add_parts(tiles_m, memory);
    }
    Item it;
    for (i64 item = blockIdx.x; find(item, tiles_m, it); item += gridDim.x) {
      const Phase p = phase_of(args, it.phase);
      if (it.row >= rows(p)) continue;  // of a smaller phase
      __syncthreads();                  // the pixels of the item before are read no more
      RowPixels pixels{};
      if constexpr (!kWeight) pixels = find_pixels(it, p);
      const int all = steps(p), splits = cfg::kSplitK ? args.splits : 1;
      const int first = static_cast<int>(static_cast<i64>(all) * it.split / splits);
      const int count = static_cast<int>(static_cast<i64>(all) * (it.split + 1) / splits) - first;
      Sum sums[kBlocksM][4 * kTilesN];
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
        for (int e = 0; e < 4 * kTilesN; ++e) sums[i][e] = 0;
      }
      if (count > 0) multiply_steps(it, p, first, count, sums);
      __syncthreads();
      const int thread = static_cast<int>(threadIdx.x);
      if constexpr (cfg::kSplitK && kWeight) {
        if (splits > 1) {
          leave_partial<kThreads>(args.partials + item * kPartFloats + 4 * thread, ~0u, sums);
          continue;
        }
      } else if constexpr (cfg::kSplitK) {
        if (splits > 1 && !join_partials<kThreads>(args, static_cast<int>(it.tile), it.split, thread, ~0u,
                                                   shared + kFlagOffset, [] { __syncthreads(); }, sums))
          continue;
      }
      if constexpr (kWeight)
        finish_weights(it, p, sums);
      else
        finish(it, p, pixels, sums);
    }
  }

  TS_DEVICE void multiply_steps(const Item& it, const Phase& p, int first, int count,
                                Sum (&sums)[kBlocksM][4 * kTilesN]) const {
    GatherA a;
    GatherB b;
    start(it, p, first, a, b);
    const auto copy = [&](int stage) {
      a.copy(shared + stage * kStageBytes);
      b.copy(shared + stage * kStageBytes + LayoutA::kBytes);
    };
#pragma unroll
    for (int s = 0; s < cfg::kStages - 1; ++s) {
      if (s < count) copy(s);
      copy_commit();
    }
    int stage = 0;
    for (int s = 0; s < count; ++s) {
      copy_wait_for<cfg::kStages - 2>();
      __syncthreads();
      if (s + cfg::kStages - 1 < count) copy(stage == 0 ? cfg::kStages - 1 : stage - 1);
      copy_commit();
      if constexpr (cfg::kTf32x3) {
        // The tensor cores cut off what they add up; float32 registers round it.
        Sum fresh[kBlocksM][4 * kTilesN] = {};
        multiply(shared + stage * kStageBytes, fresh);
#pragma unroll
        for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
          for (int e = 0; e < 4 * kTilesN; ++e) sums[i][e] += fresh[i][e];
        }
      } else {
        multiply(shared + stage * kStageBytes, sums);
      }
      stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
    }
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  const ts::conv::Conv conv{args, ts::smem_address(dynamic_shared)};
  conv.run(dynamic_shared);
}
