#include "choose/ck_serves.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "vocabulary/names/name.hpp"

namespace tilesmith {

Status ck_serves(const Recipe& recipe, std::span<const Recipe> serving, std::span<const Refusal> refused) {
  if (std::ranges::find(serving, recipe) != serving.end()) return {};
  for (const Step& step : recipe.steps)
    if (const auto found = std::ranges::find(refused, step.config, &Refusal::config); found != refused.end())
      return fail(ErrorCode::unsupported, fmt::format("instance {} does not serve the problem: {}: {}",
                                                      kernel_name(step.config), found->rule, found->figures));
  return fail(ErrorCode::invalid_argument, fmt::format("{} does not compute this problem", recipe_name(recipe)),
              fmt::format("an instance such as {}", recipe_name(serving.front())));
}

}  // namespace tilesmith
