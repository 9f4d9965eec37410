// What the consumers of decode's kernels for Hopper do with a piece's results, which stay in registers: outputs as wgmma
// leaves them, from some column of the values on.
#pragma once

#include "../piece_work.cuh"

namespace ts {

// The thread's columns of its row r of two, of the first `columns`.
template <int kOutputs>
TS_DEVICE void store_columns(float* to, const float (&o)[kOutputs], int r, int columns) {
  const int column = 2 * (threadIdx.x & 3);
#pragma unroll
  for (int i = 0; i < kOutputs; i += 4)
    if (2 * i < columns)
      asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to + 2 * i + column), "f"(o[i + 2 * r]),
                   "f"(o[i + 2 * r + 1])
                   : "memory");
}

// Brings outputs to the rows' new bases.
template <int kOutputs>
TS_DEVICE void scale_outputs(float (&o)[kOutputs], const float (&factor)[2]) {
  if (!__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) return;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) o[i] *= factor[(i >> 1) & 1];
}

// Stores the thread's rows, `first` + 8 * r, of an item of one piece, or leaves them in the piece's partial and joins if
// it is the last. The thread's outputs begin at `first_column` of the values; where that is 0, states are stored, too.
template <class Work, int kOutputs>
TS_DEVICE void finish_rows(const Work& work, int item_number, const float (&o)[kOutputs], const State (&states)[2],
                           int first_row, int first_column) {
  const auto& args = work.args;
  const int count = work.item.rows(args), columns = cfg::kHeadDimV - first_column;
  const bool has_state = first_column == 0 && (threadIdx.x & 3) == 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + 8 * r;
    const bool stored = row < count;
    if (work.piece.count == 1) {
      const RowResult result = work.result_of(states[r], imin(row, count - 1));
      char* const out = const_cast<char*>(work.row_of(args.o, args.o_strides, imin(row, count - 1))) + 2 * first_column;
      store_row<cfg::kBf16>(stored ? out : nullptr, o, r, result.scale, columns);
      if (stored && has_state) work.store_lse(row, result.lse);
    } else if (stored) {
      float* const to = work.part_row(item_number, work.number, row);
      store_columns(to + first_column, o, r, columns);
      if (has_state) store_part_state(to + cfg::kHeadDimV, states[r]);
    }
  }
  if (work.piece.count > 1) work.join_if_last(item_number);
}

}  // namespace ts
