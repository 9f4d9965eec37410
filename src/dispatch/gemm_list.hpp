// What plans for lists of products have in common, and the plan that runs one product after the other.
#pragma once

#include <fmt/format.h>

#include <span>
#include <vector>

#include "base/error.hpp"
#include "dispatch/backend.hpp"

namespace tilesmith {

/// Checks every product's arguments, and that there are as many as problems; messages have the product's number.
[[nodiscard]] Status validate(std::span<const GemmProblem> problems, std::span<const GemmArguments> arguments);

/// The plans of single products, in order. Error: the first one's, with its number.
[[nodiscard]] Result<std::vector<const GemmPlan*>> plans_of(std::span<const GemmProblem> problems,
                                                            const GemmBackend::Planner& plan);

/// One stage for each kernel, with how many products it computes; `how` they are computed is the reason.
[[nodiscard]] PlanFacts facts_of_list(Device device, std::span<const GemmPlan* const> members, std::string_view how);

[[nodiscard]] inline Error of_product(const Error& error, std::size_t at, std::size_t count) {
  return error.in(fmt::format("product {} of {}", at, count));
}

/// A stream runs them one behind the other.
class GemmSequencePlan final : public GemmListPlan {
 public:
  GemmSequencePlan(std::vector<GemmProblem> problems, PlanFacts facts, std::vector<const GemmPlan*> members)
      : GemmListPlan(std::move(problems), std::move(facts)), members_(std::move(members)) {}

  [[nodiscard]] Status run(std::span<const GemmArguments> arguments, const RunOptions& options) const override;

 private:
  std::vector<const GemmPlan*> members_;
};

}  // namespace tilesmith
