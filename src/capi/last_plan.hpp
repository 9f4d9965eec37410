// What the calling thread ran last.
#pragma once

#include <string>

#include "capi/context.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::capi {

/// Allocates nothing and takes no lock. `operation` lives for ever.
void remember(const tilesmith_context& context, const Plan& plan, const char* operation);

/// The problem's line, as the program takes it; empty for a list of problems.
[[nodiscard]] std::string problem_line(const Plan& plan);

/// Fills the caller's structure with the plan's info.
[[nodiscard]] Status write_plan(const Plan& plan, const char* operation, tilesmith_plan_info* out);

}  // namespace tilesmith::capi
