// What forward and backward data of depthwise layers leave: results of a thread's two channels, behind the epilogue.
#pragma once

#include "../../gemm/epilogue.cuh"
#include "steps.cuh"

namespace ts::conv {

// Two results of one column, `row_step` rows apart, as gemm/epilogue.cuh asks for places.
struct TwoResults {
  int row, column;  // column: the first of the thread's two channels
  int row_limit, column_limit;
  int image, at[3], row_step;

  TS_DEVICE i64 offset(const TsConvStrides& s, int r) const {
    return image * s.batch + at[0] * s.spatial[0] + (at[1] + r * row_step) * s.spatial[1] + at[2] * s.spatial[2];
  }
  TS_DEVICE i64 entry_n(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 entry(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int r, int channel) const {
    return offset(o.strides, r) + channel * o.strides.group;
  }
  TS_DEVICE i64 column_step(const TsCudaConvOperand& o) const { return o.strides.group; }
};

// Of the tile's results those from (row, column) on, of channel and the next.
template <int kRows, int kColumns>
TS_DEVICE void finish_results(const TsCudaConvArgs& args, const Step& s, int channel, int row, int column,
                              const float (&sums)[kRows][kColumns][2]) {
  constexpr int kBytes = bytes_of(cfg::kTypeD);
  if (channel >= args.groups) return;
  const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
#pragma unroll
  for (int t = 0; t < kRows; t += 2) {
    const int rows = imin(s.results_h - row - t, 2);  // of the two that exist
    if (rows <= 0) break;
#pragma unroll
    for (int q = 0; q < kColumns; ++q) {
      if (column + q >= s.results_w) break;
      const TwoResults place{0,
                             channel,
                             rows == 2 ? 9 : 1,
                             static_cast<int>(args.groups),
                             s.image,
                             {s.at[0], s.at[1] + (row + t) * s.apart[1], s.at[2] + (column + q) * s.apart[2]},
                             s.apart[1]};
      constexpr bool kTwo = kRows > 1;
      const int second = kTwo && t + 1 < kRows ? t + 1 : t;
      float v[4] = {sums[t][q][0], sums[t][q][1], sums[second][q][0], sums[second][q][1]};
      Operands<0, 8> operands;
      operands.load(args, place);
      operands.apply(args, place, v, {});
#pragma unroll
      for (int r = 0; r < (kTwo ? 2 : 1); ++r) {
        char* const out = static_cast<char*>(args.out) + (place.offset(strides, r) + channel) * kBytes;
        store_pair<cfg::kTypeD, true>(out, pack_pair<cfg::kTypeD>(v[2 * r], v[2 * r + 1]), r < rows ? 2 : 0);
      }
    }
  }
}

}  // namespace ts::conv
