#include "dispatch/gemm/list.hpp"

#include <algorithm>

#include "dispatch/plan_info.hpp"
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

void GemmListInfo::add(const PlanStep& step, std::size_t products) {
  const auto found = std::ranges::find_if(
      parts_, [&](const Part& part) { return part.step.kernel == step.kernel && part.step.role == step.role; });
  if (found != parts_.end())
    found->products += products;
  else
    parts_.push_back({step, products});
}

void GemmListInfo::add(const Plan& member, bool has_work) {
  for (const PlanStep& step : member.steps()) add(step, 1);
  if (!has_work) return;
  add_source(member.info().source);
  predicted_seconds_ += member.predicted_seconds();
  is_predicted_ = is_predicted_ && member.predicted_seconds() > 0;
}

void GemmListInfo::add(const KernelConfig& kernel, std::size_t products, double predicted_seconds) {
  for (const PlanStep& step : plan_info({}, {kernel}, {}).steps) add(step, products);
  predicted_seconds_ += predicted_seconds;
  add_source(name_of(ChoiceSource::model));
}

void GemmListInfo::add_source(std::string_view source) {
  if (source_.empty()) source_ = source;
  if (source_ != source) source_ = "mixed";
}

PlanInfo GemmListInfo::info(Device device, std::size_t products, std::string_view how) const {
  PlanInfo info{.device = device,
                .recipe = {},
                .reason = fmt::format("{} products {}", products, how),
                .predicted_seconds = is_predicted_ ? predicted_seconds_ : 0,
                .source = source_};
  for (const auto& [step, count] : parts_) {
    info.steps.push_back(step);
    info.steps.back().what += fmt::format(", for {} products", count);
  }
  info.recipe = recipe_name(info.steps);
  return info;
}

}  // namespace tilesmith
