#include "dispatch/steps.hpp"

#include <fmt/format.h>

namespace tilesmith {

Error of_step(const Error& error, const Recipe& recipe, std::size_t step) {
  if (recipe.steps.size() == 1) return error;
  return error.in(fmt::format("step {} of {} ({})", step + 1, recipe.steps.size(), step_name(recipe.steps[step])));
}

}  // namespace tilesmith
