#include "dispatch/plan_info.hpp"

#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

std::string_view what_does(StepRole role) {
  switch (role) {
    case StepRole::compute:
      return "computes the result";
    case StepRole::pack_b:
      return "packs B";
    case StepRole::pack_w:
      return "packs w";
    case StepRole::prepare:
      return "sums rows and zeroes what is added to";
    case StepRole::convert:
      return "scales and rounds what was added";
    case StepRole::sum_bias:
      return "sums the gradient of a broadcast bias";
    case StepRole::join:
      return "joins partial results of pieces of keys";
  }
  return "";
}

}  // namespace

PlanInfo plan_info(Device device, const Candidate& chosen, std::string reason) {
  PlanInfo info{.device = device,
                .recipe = recipe_name(chosen.recipe),
                .reason = std::move(reason),
                .predicted_seconds = chosen.predicted_seconds,
                .source = std::string(name_of(chosen.source)),
                .measured_seconds = chosen.measured_seconds.value_or(0),
                .bound = chosen.bound};
  for (const Step& step : chosen.recipe.steps)
    info.steps.push_back({.kernel = kernel_name(step.config),
                          .role = std::string(name_of(step.role)),
                          .what = std::string(what_does(step.role))});
  return info;
}

std::string recipe_name(std::span<const PlanStep> steps) {
  std::string name;
  for (const PlanStep& step : steps) {
    if (!name.empty()) name += '+';
    if (step.role != name_of(StepRole::compute)) name += step.role + ":";
    name += step.kernel;
  }
  return name;
}

}  // namespace tilesmith
