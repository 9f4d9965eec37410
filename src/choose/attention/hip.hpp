// Choosing an attention kernel for an AMD GPU: the instances that the rules accept for a problem, ordered by the model.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Recipes that compute the problem, the fastest first: of one kernel, or of one that shares out keys and one that
/// joins its partial results. Error: unsupported, with the rule that refuses, when there is none.
[[nodiscard]] Result<Ranking> rank(const HipSpec& spec, const AttentionProblem& problem);

/// Whether a recipe runs on the device and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const HipSpec& spec, const Recipe& recipe, const AttentionProblem& problem);

/// Every other config of the tile table with the problem's signature, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const HipSpec& spec, const AttentionProblem& problem);

}  // namespace tilesmith
