// One GEMM call as the checks see it. The meaning of every field is that of GemmArguments (include/tilesmith/gemm.hpp),
// restated here as code that uses nothing of the generator or of the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "verify/tensor_view.hpp"

namespace tilesmith {

/// One operation of the epilogue. A vector is a view that stands still along the other dimension: stride 0.
struct GemmStep {
  EpilogueOp op = EpilogueOp::none;
  TensorView operand{};
  float low = 0, high = 0;
};

/// Rows of one member of the batch that are computed: `count` of them from `first` on, behind `before` rows of the
/// members in front of it.
struct GemmRows {
  std::int64_t first = 0, count = 0, before = 0;
};

/// Scales along k of a matrix: of element q of k, for the member's row of A or column of B number i, that at
/// (i / lines, q / depth).
struct GemmScaleView {
  TensorView view{};
  std::int64_t lines = 1, depth = 0;  ///< depth 0: there are none
};

/// Element (i, j) of member b of a view lies at b * strides.batch + i * strides.row + j * strides.column. A is m x k, B
/// k x n, A2 m x k2, B2 k2 x n, C m x n, whatever orders they are stored in.
struct GemmTensors {
  TensorView a, b, c;
  TensorView a2{}, b2{};  ///< of the second product, with k2
  std::int64_t batch = 1, m = 0, n = 0, k = 0, k2 = 0;
  float alpha = 1, beta = 0;
  std::vector<GemmStep> epilogue{};
  GemmScaleView scale_a{}, scale_b{};
  GemmScaleView zero_b{};     ///< zero points of weights, taken from them before they are scaled
  bool b_is_weights = false;  ///< B times its scales is rounded to A's type
  bool b_is_int4 = false;     ///< B is bytes of two int4 each; its strides count int4
  /// Of groups, one for each member; rows count from the beginning of what A, C, D, and what runs with their rows, hold
  /// for the member: with contiguous groups they hold everything, and their batch strides are 0. Empty: all rows.
  std::vector<GemmRows> groups{};
  bool contiguous = false;  ///< the groups'

  [[nodiscard]] GemmRows rows_of(std::int64_t member) const {
    return groups.empty() ? GemmRows{0, m, member * m} : groups[static_cast<std::size_t>(member)];
  }
  /// Whether row `row` of a matrix of A's or D's is computed; contiguous groups have matrix 0 alone.
  [[nodiscard]] bool is_computed(std::int64_t matrix, std::int64_t row) const;
  /// Rows that are computed, of all members.
  [[nodiscard]] std::int64_t total_rows() const;
  /// Elements of k of both products: those of the second are numbered on from the first's.
  [[nodiscard]] std::int64_t depth() const { return k + k2; }
  /// op(A)(i, p) and op(B)(p, j) of a member as numbers, scales included; from p = k on, of the second product.
  [[nodiscard]] double value_of_a(std::int64_t member, std::int64_t i, std::int64_t p) const;
  [[nodiscard]] double value_of_b(std::int64_t member, std::int64_t p, std::int64_t j) const;
  [[nodiscard]] bool gated() const;
  [[nodiscard]] std::int64_t columns_of_d() const { return gated() ? n / 2 : n; }
  [[nodiscard]] std::int64_t elements_of_d() const { return total_rows() * columns_of_d(); }
};

/// Up to `most` rows of a member, from the one that is `row` behind its first: the work of a task.
struct GemmRowBlock {
  std::int64_t member = 0, row = 0;
};
[[nodiscard]] std::vector<GemmRowBlock> row_blocks_of(const GemmTensors& tensors, std::int64_t most);

/// Refuses calls that have no meaning: sizes below zero, missing data, gates on an odd number of columns.
[[nodiscard]] Status check_tensors(const GemmTensors& tensors);

/// Element (i, j) of member b.
[[nodiscard]] double element(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t j);

/// f of an activation, or of a gate.
[[nodiscard]] double activated(EpilogueOp op, double x);

}  // namespace tilesmith
