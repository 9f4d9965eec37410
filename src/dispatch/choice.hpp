// Choosing a recipe for a problem: the policy's first, and when it cannot be had, the next best that can, with a word
// about it.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "choose/measured.hpp"
#include "dispatch/backend.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// A problem of any operation, as choosing sees it.
class RecipeSource {
 public:
  RecipeSource() = default;
  RecipeSource(const RecipeSource&) = delete;
  RecipeSource& operator=(const RecipeSource&) = delete;
  virtual ~RecipeSource() = default;

  // As in OperationBackend.
  [[nodiscard]] virtual Result<Ranking> rank() const = 0;
  [[nodiscard]] virtual std::vector<Candidate> fallbacks() const = 0;
  [[nodiscard]] virtual Status check(const Recipe& recipe) const = 0;
  /// Makes a plan and keeps it. Errors: those of OperationBackend::plan.
  [[nodiscard]] virtual Status plan(const Candidate& chosen, std::string reason, BuildPolicy build) = 0;
};

/// Has the source make a plan by the best recipe that can be had under the options. Errors: those of the best recipe.
[[nodiscard]] Status choose(RecipeSource& source, const DispatcherOptions& options);

/// Whether measurements of the problem may decide: they are of one batch, and no reason for another's kernel.
template <class Problem>
[[nodiscard]] constexpr bool may_be_measured(const Problem& problem) {
  if constexpr (requires { problem.batch_invariant; }) return !problem.batch_invariant;
  return true;
}

/// The problem whose measurements hold for it: appending comes before any kernel that attends.
template <class Problem>
[[nodiscard]] constexpr Problem measured_as(Problem problem) {
  if constexpr (requires { problem.append; }) problem.append = false;
  return problem;
}

/// A plan of the problem by the best recipe that can be had under the options. What `measured` has for the problem goes
/// first. Errors: those of the best recipe.
template <class Op>
[[nodiscard]] Result<std::unique_ptr<PlanFor<Op>>> choose_plan(OperationBackend<Op>& backend,
                                                               const typename Op::Problem& problem,
                                                               const DispatcherOptions& options,
                                                               const MeasuredTable& measured = {}) {
  class OfBackend final : public RecipeSource {
   public:
    OfBackend(OperationBackend<Op>& kernels, const typename Op::Problem& of, const MeasuredTable& table)
        : backend_(kernels), problem_(of), measured_(table) {}

    [[nodiscard]] Result<Ranking> rank() const override {
      TS_ASSIGN(Ranking ranking, backend_.rank(problem_));
      // Problems that callers do not have (packing B) are not tuned.
      if constexpr (OperationProblem<typename Op::Problem>)
        if (may_be_measured(problem_)) measured_.apply(measured_as(problem_), ranking);
      return ranking;
    }
    [[nodiscard]] std::vector<Candidate> fallbacks() const override { return backend_.fallbacks(problem_); }
    [[nodiscard]] Status check(const Recipe& recipe) const override { return backend_.check(recipe, problem_); }
    [[nodiscard]] Status plan(const Candidate& chosen, std::string reason, BuildPolicy build) override {
      TS_ASSIGN(made, backend_.plan(problem_, chosen, std::move(reason), build));
      return {};
    }

    std::unique_ptr<PlanFor<Op>> made;

   private:
    OperationBackend<Op>& backend_;
    const typename Op::Problem& problem_;
    const MeasuredTable& measured_;
  };
  OfBackend source(backend, problem, measured);
  TS_TRY(choose(source, options));
  return std::move(source.made);
}

}  // namespace tilesmith
