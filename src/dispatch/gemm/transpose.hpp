// GEMMs with a column-major D, as the row-major GEMMs whose transposes they are: D^T = op(B)^T x op(A)^T. No kernel
// knows of column-major results.
#pragma once

#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// The GEMM whose row-major D lies in memory as the column-major D of `problem` does: A and B, m and n, and what the
/// epilogue reads along them have changed places.
[[nodiscard]] GemmProblem transposed(const GemmProblem& problem);
/// The problem if its D is row-major, else its transpose.
[[nodiscard]] GemmProblem with_row_d(const GemmProblem& problem);
/// A call's arguments for the transposed problem. What the epilogue reads stays where it is.
[[nodiscard]] GemmArguments transposed(const GemmArguments& arguments);

/// Plans the problem by `make`, which sees problems with a row-major D alone: where D is column-major, the plan runs
/// that of the transpose.
[[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan_with_row_d(
    const GemmProblem& problem, FunctionRef<Result<std::unique_ptr<GemmPlan>>(const GemmProblem&)> make);
/// The same for lists.
[[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan_with_row_d(
    std::vector<GemmProblem> problems,
    FunctionRef<Result<std::unique_ptr<const GemmListPlan>>(std::vector<GemmProblem>)> make);

}  // namespace tilesmith
