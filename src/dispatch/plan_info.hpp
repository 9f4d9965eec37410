// What a plan tells of itself.
#pragma once

#include <string>

#include "choose/candidate.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// The info of a plan that runs the chosen recipe: the recipe's name, a step for each of its kernels, why it was chosen
/// and what it is predicted to take. The workspace is the plan's to tell (WorkspaceLayout::tell).
[[nodiscard]] PlanInfo plan_info(Device device, const Candidate& chosen, std::string reason);

}  // namespace tilesmith
