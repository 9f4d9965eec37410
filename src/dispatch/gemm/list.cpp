#include "dispatch/gemm/list.hpp"

#include <algorithm>

#include "problem/gemm/problem.hpp"

namespace tilesmith {

Status validate(std::span<const GemmProblem> problems, std::span<const GemmArguments> arguments) {
  if (arguments.size() != problems.size())
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("there are arguments for {} products, the plan is for {}", arguments.size(), problems.size()),
        "as many as problems, in their order");
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (const Status status = validate(problems[i], arguments[i]); !status)
      return std::unexpected(of_product(status.error(), i, problems.size()));
  return {};
}

Result<std::vector<const GemmPlan*>> plans_of(std::span<const GemmProblem> problems,
                                              const ListBackend<Gemm>::Planner& plan) {
  std::vector<const GemmPlan*> plans;
  plans.reserve(problems.size());
  for (const GemmProblem& problem : problems) {
    const auto member = plan(problem);
    if (!member) return std::unexpected(of_product(member.error(), plans.size(), problems.size()));
    plans.push_back(*member);
  }
  return plans;
}

void GemmListInfo::add(std::string_view kernel, std::size_t products) {
  const auto found = std::ranges::find(kernels_, kernel, &std::pair<std::string, std::size_t>::first);
  if (found != kernels_.end())
    found->second += products;
  else
    kernels_.emplace_back(kernel, products);
}

PlanInfo GemmListInfo::info(Device device, std::size_t products, std::string_view how) const {
  PlanInfo info{.device = device, .recipe = {}, .reason = fmt::format("{} products {}", products, how)};
  for (const auto& [kernel, count] : kernels_) {
    if (!info.recipe.empty()) info.recipe += '+';
    info.recipe += kernel;
    info.steps.push_back({.kernel = kernel,
                          .role = std::string(name_of(StepRole::compute)),
                          .what = fmt::format("computes {} products", count)});
  }
  return info;
}

}  // namespace tilesmith
