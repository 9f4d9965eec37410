// Attention on a cache that the call appends to, as two calls one after the other.
#pragma once

#include <memory>

#include "dispatch/backend.hpp"

namespace tilesmith {

/// Puts the appending in front of the steps that attend.
void tell_append(PlanInfo& info);

/// A plan of the problem, which has `append`: `append` writes the new keys, then `attend`, a plan of attended(problem),
/// runs on the same stream. Errors of a call are found before either runs.
[[nodiscard]] std::unique_ptr<AttentionPlan> append_plan(const AttentionProblem& problem,
                                                         std::unique_ptr<AttentionPlan> attend,
                                                         DirectBackend<AppendKvCall>& append);

}  // namespace tilesmith
