// Choosing among Composable Kernel's instances of attention backward, three kernels to a recipe.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "tilesmith/attention_backward.hpp"

namespace tilesmith {

/// Recipes that compute the problem, by predicted seconds: bwd_dot_do_o, bwd_dq_dk_dv and, but for kernels of few
/// queries, bwd_convert_dq. They add nothing in any order (deterministic). Gradients of k and v are those of each query
/// head: with fewer heads of keys the caller adds up. Error: unsupported, with what refuses the problem.
[[nodiscard]] Result<Ranking> rank(const CkFacts& facts, const AttentionBackwardProblem& problem);

/// The same recipes as upstream takes them: those with a limit of queries before the others, then by the rows of the
/// tile as attention forward's are (choose/attention/ck.hpp).
[[nodiscard]] Result<Ranking> upstream_ranking(const CkFacts& facts, const AttentionBackwardProblem& problem);

/// Whether a recipe runs on the chip and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CkFacts& facts, const Recipe& recipe, const AttentionBackwardProblem& problem);

/// Every other instance with the problem's traits and head dims, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CkFacts& facts, const AttentionBackwardProblem& problem);

}  // namespace tilesmith
