// A GEMM with a column-major D as the row-major GEMM whose transpose it is: D^T = op(B)^T x op(A)^T. No kernel knows of
// column-major results.
#pragma once

#include "tilesmith/gemm.hpp"

namespace tilesmith {

[[nodiscard]] inline bool has_column_d(const GemmProblem& problem) {
  return problem.order_d == MatrixOrder::column;
}

/// The GEMM whose row-major D lies in memory as the column-major D of `problem` does: A and B, m and n, and what the
/// epilogue reads along them have changed places.
[[nodiscard]] GemmProblem transposed(const GemmProblem& problem);
/// The problem if its D is row-major, else its transpose.
[[nodiscard]] GemmProblem with_row_d(const GemmProblem& problem);
/// A call's arguments for the transposed problem. What the epilogue reads stays where it is.
[[nodiscard]] GemmArguments transposed(const GemmArguments& arguments);

}  // namespace tilesmith
