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
/// Of backward weight also two-stage instances, as they run with the parts of ck_k_batch, and stream-K. Upstream states
/// no rule for choosing among them. Error: unsupported, with what refuses the problem.
[[nodiscard]] Result<Ranking> rank(const CkFacts& facts, const ConvProblem& problem);

/// Whether a recipe runs on the chip and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CkFacts& facts, const Recipe& recipe, const ConvProblem& problem);

/// Every other instance of the problem's direction, type and dimensions, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CkFacts& facts, const ConvProblem& problem);

/// The argument k_batch of a call of the instance: of a two-stage one the power of two, 128 at most, that is predicted
/// to take the least time, of others 1, since they would add parts in the type of the filters.
[[nodiscard]] std::int64_t ck_k_batch(const CkFacts& facts, const KernelConfig& config, const ConvProblem& problem);

}  // namespace tilesmith
