#include "dispatch/gemm_list.hpp"

#include <algorithm>

#include "dispatch/gemm_problem.hpp"

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

Result<std::vector<const GemmPlan*>> plans_of(std::span<const GemmProblem> problems, const GemmBackend::Planner& plan) {
  std::vector<const GemmPlan*> plans;
  plans.reserve(problems.size());
  for (const GemmProblem& problem : problems) {
    const auto member = plan(problem);
    if (!member) return std::unexpected(of_product(member.error(), plans.size(), problems.size()));
    plans.push_back(*member);
  }
  return plans;
}

PlanFacts facts_of_list(Device device, std::span<const GemmPlan* const> members, std::string_view how) {
  std::vector<std::string_view> kernels;
  std::vector<std::size_t> products;
  for (const GemmPlan* member : members) {
    const auto found = std::ranges::find(kernels, member->kernel_name());
    const auto at = static_cast<std::size_t>(found - kernels.begin());
    if (found == kernels.end()) {
      kernels.push_back(member->kernel_name());
      products.push_back(0);
    }
    ++products[at];
  }
  PlanFacts facts{.device = device, .kernel = {}, .reason = fmt::format("{} products {}", members.size(), how)};
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (i > 0) facts.kernel += ", ";
    facts.kernel += kernels[i];
    facts.stages.push_back({std::string(kernels[i]), fmt::format("{} products", products[i])});
  }
  return facts;
}

Status GemmSequencePlan::run(std::span<const GemmArguments> arguments, const RunOptions& options) const {
  TS_TRY(validate(problems(), arguments));
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (const Status status = members_[i]->run(arguments[i], options); !status)
      return std::unexpected(of_product(status.error(), i, members_.size()));
  return {};
}

}  // namespace tilesmith
