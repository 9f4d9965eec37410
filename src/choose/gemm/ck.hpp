// Choosing among Composable Kernel's GEMM instances for a problem: by a model of the chip, or as upstream's dispatcher
// does.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// Instances that compute the problem, by predicted seconds: those of the sweep, which take whole tiles, and of the
/// preselected sets, which pad. One product with alpha 1 and no beta: standard and stream-K, with one or two tensors of
/// an epilogue that adds or multiplies multi_d, a batch as a list of GEMMs grouped. With packed_b the pre-shuffled
/// ones: B then lies in the order of the chosen instance's fragments, which the caller brings it into beforehand.
/// Error: unsupported, with what refuses the problem.
[[nodiscard]] Result<Ranking> rank(const CkFacts& facts, const GemmProblem& problem);

/// The same instances in the order in which upstream's dispatcher takes the first that supports the sizes: that of
/// their registration, the sweep's before the preselected sets. Stream-K is not among them: a call asks for it by name.
///   dispatcher/src/dispatcher.cpp (select_first_fit) of Composable Kernel, 2026-05
[[nodiscard]] Result<Ranking> upstream_ranking(const CkFacts& facts, const GemmProblem& problem);

/// Whether a recipe runs on the chip and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CkFacts& facts, const Recipe& recipe, const GemmProblem& problem);

/// Every other instance with the problem's types, layouts and operation, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CkFacts& facts, const GemmProblem& problem);

}  // namespace tilesmith
