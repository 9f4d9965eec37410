// Choosing among Composable Kernel's grouped-convolution instances for a problem, by a model of the chip.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// Instances of the full rule set that compute the problem on tensors with channels last, by predicted seconds.
/// Two-stage and stream-K instances are taken by name only. Upstream states no rule for choosing among them. Error:
/// unsupported, with what refuses the problem.
[[nodiscard]] Result<Ranking> rank(const CkFacts& facts, const ConvProblem& problem);

/// Whether a recipe runs on the chip and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CkFacts& facts, const Recipe& recipe, const ConvProblem& problem);

/// Every other instance of the problem's direction, type and dimensions, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CkFacts& facts, const ConvProblem& problem);

}  // namespace tilesmith
