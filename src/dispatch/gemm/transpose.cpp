#include "dispatch/gemm/transpose.hpp"

#include <algorithm>
#include <utility>

#include "dispatch/gemm/list.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

/// The info of the plan of the transpose.
PlanInfo info_of(const Plan& plan, std::string_view what) {
  PlanInfo info = plan.info();
  info.reason += fmt::format("; {}", what);
  return info;
}

class TransposedPlan final : public GemmPlan {
 public:
  TransposedPlan(const GemmProblem& problem, std::unique_ptr<GemmPlan> plan)
      : GemmPlan(problem, info_of(*plan, "of the transposed GEMM")), plan_(std::move(plan)) {}

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));  // in the caller's names
    return plan_->run(transposed(arguments), options);
  }

 private:
  std::unique_ptr<GemmPlan> plan_;
};

class TransposedListPlan final : public GemmListPlan {
 public:
  TransposedListPlan(std::vector<GemmProblem> problems, std::unique_ptr<const GemmListPlan> plan)
      : GemmListPlan(std::move(problems), info_of(*plan, "some of transposed GEMMs")), plan_(std::move(plan)) {}

  [[nodiscard]] Status run(std::span<const GemmArguments> arguments, const RunOptions& options) const override {
    TS_TRY(validate(problems(), arguments));            // in the caller's names
    thread_local std::vector<GemmArguments> row_major;  // calls allocate nothing, but for a thread's first
    row_major.assign(arguments.begin(), arguments.end());
    for (std::size_t i = 0; i < row_major.size(); ++i)
      if (has_column_d(problems()[i])) row_major[i] = transposed(row_major[i]);
    return plan_->run(row_major, options);
  }

 private:
  std::unique_ptr<const GemmListPlan> plan_;
};

}  // namespace

Result<std::unique_ptr<GemmPlan>> plan_with_row_d(
    const GemmProblem& problem, FunctionRef<Result<std::unique_ptr<GemmPlan>>(const GemmProblem&)> make) {
  if (!has_column_d(problem)) return make(problem);
  TS_ASSIGN(std::unique_ptr<GemmPlan> plan, make(transposed(problem)));
  return std::make_unique<TransposedPlan>(problem, std::move(plan));
}

Result<std::unique_ptr<const GemmListPlan>> plan_with_row_d(
    std::vector<GemmProblem> problems,
    FunctionRef<Result<std::unique_ptr<const GemmListPlan>>(std::vector<GemmProblem>)> make) {
  if (std::ranges::none_of(problems, has_column_d)) return make(std::move(problems));
  std::vector<GemmProblem> row_major(problems.size());
  std::ranges::transform(problems, row_major.begin(), with_row_d);
  TS_ASSIGN(std::unique_ptr<const GemmListPlan> made, make(std::move(row_major)));
  return std::make_unique<TransposedListPlan>(std::move(problems), std::move(made));
}

}  // namespace tilesmith
