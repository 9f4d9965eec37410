// Plans of GEMMs with a column-major D: they run the plan of the transpose (problem/gemm/transpose.hpp).
#pragma once

#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "problem/gemm/transpose.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// Plans the problem by `make`, which sees problems with a row-major D alone: where D is column-major, the plan runs
/// that of the transpose.
[[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan_with_row_d(
    const GemmProblem& problem, FunctionRef<Result<std::unique_ptr<GemmPlan>>(const GemmProblem&)> make);
/// The same for lists.
[[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan_with_row_d(
    std::vector<GemmProblem> problems,
    FunctionRef<Result<std::unique_ptr<const GemmListPlan>>(std::vector<GemmProblem>)> make);

}  // namespace tilesmith
