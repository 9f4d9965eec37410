// What a plan tells of itself.
#pragma once

#include <span>
#include <string>

#include "choose/candidate.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// The info of a plan that runs the chosen recipe: the recipe's name, a step for each of its kernels, why it was chosen
/// and what it is predicted to take. The workspace is the plan's to tell (WorkspaceLayout::tell).
[[nodiscard]] PlanInfo plan_info(Device device, const Candidate& chosen, std::string reason);

/// The name of a recipe of these steps, as recipe_name (vocabulary/recipe.hpp) writes it.
[[nodiscard]] std::string recipe_name(std::span<const PlanStep> steps);

}  // namespace tilesmith
