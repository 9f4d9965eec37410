#include "vocabulary/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "vocabulary/names/name.hpp"

namespace tilesmith {

const KernelConfig& Recipe::main() const {
  const auto found = std::ranges::find(steps, StepRole::compute, &Step::role);
  return found != steps.end() ? found->config : steps.front().config;
}

bool Recipe::is_bitwise() const {
  return std::ranges::all_of(steps, [](const Step& step) { return step.config.is_bitwise(); });
}

std::string step_name(const Step& step) {
  const std::string kernel = kernel_name(step.config);
  return step.role == StepRole::compute ? kernel : fmt::format("{}:{}", name_of(step.role), kernel);
}

std::string recipe_name(const Recipe& recipe) {
  std::string name;
  for (const Step& step : recipe.steps) {
    if (!name.empty()) name += '+';
    name += step_name(step);
  }
  return name;
}

Result<Recipe> parse_recipe_name(std::string_view name) {
  constexpr std::size_t kMostSteps = 8;
  Recipe recipe;
  while (true) {
    const std::size_t end = name.find('+');
    std::string_view step = name.substr(0, end);
    const auto where = [&](const Error& error) {
      return std::unexpected(error.in(fmt::format("step {}", recipe.steps.size() + 1)));
    };
    Step read;
    if (const std::size_t colon = step.find(':'); colon != std::string_view::npos) {
      const auto role = parse_enum<StepRole>(step.substr(0, colon));
      if (!role) return where(role.error());
      read.role = *role;
      step.remove_prefix(colon + 1);
    }
    auto config = parse_kernel_name(step);
    if (!config)
      return recipe.steps.empty() && end == std::string_view::npos ? std::unexpected(config.error())
                                                                   : where(config.error());
    read.config = std::move(*config);
    recipe.steps.push_back(std::move(read));
    if (end == std::string_view::npos) return recipe;
    if (recipe.steps.size() == kMostSteps)
      return fail(ErrorCode::parse, fmt::format("a recipe of more than {} steps", kMostSteps));
    name.remove_prefix(end + 1);
  }
}

Key128 key_of(const Recipe& recipe) {
  if (recipe.steps.size() == 1 && recipe.steps.front().role == StepRole::compute)
    return key_of(recipe.steps.front().config);
  std::string text;
  std::vector<std::string> keys;  // copies before and after a kernel are the same one
  for (const Step& step : recipe.steps) {
    const auto alike = std::ranges::find(recipe.steps, step.config, &Step::config);
    const auto at = static_cast<std::size_t>(alike - recipe.steps.begin());
    keys.push_back(at < keys.size() ? keys[at] : key_of(step.config).hex());
    text += fmt::format("{}:{};", name_of(step.role), keys.back());
  }
  return key128(text);
}

}  // namespace tilesmith
