// Depthwise convolution, forward and backward data, of 16-bit tensors, for Hopper (sm_90a). As data.cuh, but the copy
// engine brings tiles of pixels, taps are known when this is compiled, and weights stay in registers.
//
// A thread has a strip of results (strips.cuh). A row of pixels is read once from shared memory, and goes with each row of
// taps to the row of results it meets; a row of results leaves as soon as it is whole.
//
// Configuration: as in data.cuh, with
//   kChannels                 of a block: 32 or 64
//   kRows, kColumns           results of a tile: the columns are some strips; the rows are shared by what strips there
//                             are beside
//   kTapRows, kTaps           of the filter
//   kPace                     pixels between neighbouring results, along either coordinate
//   kStages                   at most 7
//   kTilesApart (bool), true
// There is one phase along either coordinate or as many as the dilation; backward data has a stride of 1.
//
// Launch: args.lanes is kChannels / 2; kThreads threads; kSharedBytes of dynamic shared memory; a grid of args.splits *
// ceil(groups / kChannels) blocks. The map's box is kTileRows x kPitch pixels of kChannels channels, not swizzled.
#pragma once

#include "../store.cuh"
#include "results.cuh"
#include "strips.cuh"

namespace ts::conv {

constexpr int kStageBytes = aligned_bytes(kTileBytes);
constexpr int kStepOffset = cfg::kStages * kStageBytes, kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
constexpr bool kPlain = cfg::kEpilogueLength == 0 && bytes_of(cfg::kTypeD) == 2;

struct MappedDepthwise {
  using Row = float[kStripColumns][2];
  using Weights = float[cfg::kTapRows][cfg::kTaps][2];

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE int channel() const { return first_channel + 2 * lane_of_strip(); }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }

  // In the order in which they meet pixels: of backward data the last tap meets the first.
  TS_DEVICE void load_weights(Weights& w) const {
    constexpr int kBytes = bytes_of(cfg::kTypeB), kTapsInAll = cfg::kTapRows * cfg::kTaps;
    const TsConvStrides& s = args.w_strides;
    const i64 step = cfg::kTaps > 1 ? s.spatial[2] : s.spatial[1];
    const char* const from = static_cast<const char*>(args.w) + channel() * s.group * kBytes;
    Pair<cfg::kTypeB> pairs[kTapsInAll] = {};
    if (channel() < args.groups) {
#pragma unroll
      for (int t = 0; t < kTapsInAll; ++t) {
        const char* const tap = from + (kForward ? t : kTapsInAll - 1 - t) * step * kBytes;
        pairs[t].words[0] = *reinterpret_cast<const unsigned short*>(tap) |
                            *reinterpret_cast<const unsigned short*>(tap + s.group * kBytes) << 16;
      }
    }
#pragma unroll
    for (int t = 0; t < kTapsInAll; ++t)
      unpack<cfg::kTypeB>(pairs[t], w[t / cfg::kTaps][t % cfg::kTaps][0], w[t / cfg::kTaps][t % cfg::kTaps][1]);
  }

  // Calls row_done(row of the strip, sums) for each row.
  template <class RowDone>
  TS_DEVICE void multiply(const unsigned char* tile, const Weights& w, RowDone row_done) const {
    const unsigned char* const from = tile + (first_row() * kPitch + first_column()) * cfg::kPace * kPixelBytes +
                                      lane_of_strip() * 4;
    Row sums[kStripRows] = {};
#pragma unroll
    for (int i = 0; i < kRowsMet; ++i) {
      float pixels[kPixelsMet][2];
      load_pixels(pixels, from + i * kPitch * kPixelBytes);
#pragma unroll
      for (int t = 0; t < kStripRows; ++t) {
        const int r = i - t * cfg::kPace;
        if (r < 0 || r >= cfg::kTapRows) continue;
#pragma unroll
        for (int k = 0; k < cfg::kTaps; ++k) {
#pragma unroll
          for (int q = 0; q < kStripColumns; ++q) {
#pragma unroll
            for (int e = 0; e < 2; ++e)
              sums[t][q][e] = fmaf(w[r][k][e], pixels[q * cfg::kPace + k][e], sums[t][q][e]);
          }
        }
        if (r + 1 == cfg::kTapRows) row_done(t, sums);
      }
    }
  }

  TS_DEVICE char* first_result(const Step& s) const {
    const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
    return static_cast<char*>(args.out) +
           2 * (s.image * strides.batch + s.at[0] * strides.spatial[0] +
                (s.at[1] + first_row() * s.apart[1]) * strides.spatial[1] +
                (s.at[2] + first_column() * s.apart[2]) * strides.spatial[2] + channel());
  }

  TS_DEVICE void work(const Step& s, const unsigned char* tile, const Weights& w) const {
    if constexpr (kPlain) {
      const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
      const i64 row_step = 2 * s.apart[1] * strides.spatial[1], column_step = 2 * s.apart[2] * strides.spatial[2];
      char* out = first_result(s);
      const int rows = channel() < args.groups ? s.results_h - first_row() : 0, columns = s.results_w - first_column();
      multiply(tile, w, [&](int t, const Row (&sums)[kStripRows]) {
        char* at = out;
#pragma unroll
        for (int q = 0; q < kStripColumns; ++q) {
          store_4_bytes_if(t < rows && q < columns, at, pack_pair<cfg::kTypeD>(sums[t][q][0], sums[t][q][1]).words[0]);
          at += column_step;
        }
        out += row_step;
      });
    } else {
      multiply(tile, w, [&](int t, const Row (&sums)[kStripRows]) {
        if (t + 1 == kStripRows) finish_results(args, s, channel(), first_row(), first_column(), sums);
      });
    }
  }

  TS_DEVICE void run(int part) const {
    const Run run_of_tiles = Run::of(args, part);
    Weights w;
    run_mapped(
        reinterpret_cast<Step*>(shared + kStepOffset), smem_address(shared) + kBarrierOffset,
        [&](int number) {
          Step s = plan_step(args, shape, run_of_tiles, {}, number);
          s.rows = kTileRows;  // a tile beside the image is zeros like what lies around one
          return s;
        },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kTileBytes);
          bring(smem_address(shared) + stage * kStageBytes, maps.read, barrier(stage), first_channel, s.image, s.slice,
                s.row, s.column);
        },
        [&] { load_weights(w); },
        [&](const Step& s, int stage, auto release) {
          work(s, shared + stage * kStageBytes, w);
          release();
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_depthwise_mapped
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const auto own = ts::conv::Share::of(static_cast<int>(args.groups), ts::cfg::kChannels);
  const ts::conv::MappedDepthwise kernel{maps, args, ts::conv::Shape::whole(args), own.first_channel,
                                         ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared)};
  kernel.run(own.run);
}
