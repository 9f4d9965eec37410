// One GEMM call as the checks see it. The meaning of every field is that of GemmArguments (include/tilesmith/gemm.hpp),
// restated here as code that uses nothing of the generator or of the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "verify/tensor_view.hpp"

namespace tilesmith {

/// One operation of the epilogue. A vector is a view whose stride along the other dimension is 0.
struct GemmStep {
  EpilogueOp op = EpilogueOp::none;
  TensorView operand{};
  float low = 0, high = 0;
};

/// The rows of one member of the batch that are computed: `count` rows from `first` on, or as many of a sample.
/// `before` counts the computed rows of the members in front of it.
struct GemmRows {
  std::int64_t first = 0, count = 0, before = 0;
};

/// Scales along k of a matrix. Element q of k in row i of A, or in column i of B, has the scale at
/// (i / lines, q / depth).
struct GemmScaleView {
  TensorView view{};
  std::int64_t lines = 1, depth = 0;  ///< depth 0: there are no scales
};

/// Element (i, j) of member b of a view lies at b * strides.batch + i * strides.row + j * strides.column. A is m x k, B
/// is k x n, A2 is m x k2, B2 is k2 x n, and C is m x n, in whatever order each is stored.
struct GemmTensors {
  TensorView a, b, c;
  TensorView a2{}, b2{};  ///< of the second GEMM, with k2
  std::int64_t batch = 1, m = 0, n = 0, k = 0, k2 = 0;
  float alpha = 1, beta = 0;
  std::vector<GemmStep> epilogue{};
  GemmScaleView scale_a{}, scale_b{};
  GemmScaleView zero_b{};     ///< zero points, which are subtracted from weights before these are scaled
  bool b_is_weights = false;  ///< B times its scales is rounded to A's type
  bool b_is_int4 = false;     ///< B is bytes of two int4 each; its strides count int4
  /// With groups, the rows of each member. They count from the first row that A, C, D and the epilogue's tensors have
  /// for the member. Contiguous groups share one matrix each, whose batch stride is 0. Empty: all rows are computed.
  std::vector<GemmRows> groups{};
  bool contiguous = false;  ///< the groups are contiguous
  /// Without groups: the rows of each member that are looked at, rising. Empty: all.
  std::vector<std::int64_t> sample{};

  [[nodiscard]] GemmRows rows_of(std::int64_t member) const {
    if (!groups.empty()) return groups[static_cast<std::size_t>(member)];
    const std::int64_t count = sample.empty() ? m : static_cast<std::int64_t>(sample.size());
    return {0, count, member * count};
  }
  /// The row that is the `index`-th of those that rows_of counts.
  [[nodiscard]] std::int64_t row_of(std::int64_t member, std::int64_t index) const {
    return sample.empty() ? rows_of(member).first + index : sample[static_cast<std::size_t>(index)];
  }
  /// Whether row `row` of member `matrix` of D is computed. Contiguous groups have matrix 0 alone.
  [[nodiscard]] bool is_computed(std::int64_t matrix, std::int64_t row) const;
  /// Computed rows of all members together.
  [[nodiscard]] std::int64_t total_rows() const;
  /// Elements of k of both GEMMs. The second GEMM's are numbered from k on.
  [[nodiscard]] std::int64_t depth() const { return k + k2; }
  /// op(A)(i, p) and op(B)(p, j) of a member as numbers, scales included. From p = k on they are A2's and B2's.
  [[nodiscard]] double value_of_a(std::int64_t member, std::int64_t i, std::int64_t p) const;
  [[nodiscard]] double value_of_b(std::int64_t member, std::int64_t p, std::int64_t j) const;
  /// The values of `depth` elements of a row of A from (i, p) on.
  void read_a(std::int64_t member, std::int64_t i, std::int64_t p, std::int64_t depth, double* out) const;
  /// The values of `depth` by `columns` elements of B from (p, j) on, into rows of `width` doubles.
  void read_b(std::int64_t member, std::int64_t p, std::int64_t depth, std::int64_t j, std::int64_t columns,
              double* out, std::int64_t width) const;
  [[nodiscard]] bool gated() const;
  [[nodiscard]] std::int64_t columns_of_d() const { return gated() ? n / 2 : n; }
  [[nodiscard]] std::int64_t elements_of_d() const { return total_rows() * columns_of_d(); }
};

/// Rows of a member that one task handles, up to a limit: they begin `row` rows behind the member's first.
struct GemmRowBlock {
  std::int64_t member = 0, row = 0;
};
[[nodiscard]] std::vector<GemmRowBlock> row_blocks_of(const GemmTensors& tensors, std::int64_t most);

/// Refuses calls without a meaning: negative sizes, missing data, gates on an odd number of columns.
[[nodiscard]] Status check_tensors(const GemmTensors& tensors);

/// Element (i, j) of member b.
[[nodiscard]] double element(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t j);

/// The function of an activation or of a gate, at x.
[[nodiscard]] double activated(EpilogueOp op, double x);

}  // namespace tilesmith
