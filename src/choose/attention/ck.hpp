// Choosing among Composable Kernel's attention instances for a problem: by a model of the chip, or as upstream's
// dispatcher does.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Recipes of instances that compute the problem, by predicted seconds: one kernel (fwd, fwd_pagedkv, batch_prefill),
/// or a split over keys and what combines its parts. Pages are looked up in a table with a row for each sequence, and
/// lie one token after the other. Error: unsupported, with what refuses the problem.
[[nodiscard]] Result<Ranking> rank(const CkFacts& facts, const AttentionProblem& problem);

/// The same recipes as upstream would try them; those that it would never take are left out. Of a family, the lowest of
/// (category, rows of the tile) wins, with the longest sequence of queries sq, a tile of m0 rows, and `whole` for sq %
/// m0 == 0:
///   0  sq <= m0 and whole      1  m0 == 64      2  m0 is the largest of all      3  whole      4  the others
/// Of equal ones those with fewer padded dimensions come first, then the order of the list. The pipeline v3 comes
/// before the others when there is more than one query. The family is that of upstream's example: split where
/// ck_num_splits says more than one part, which pages ask for where nothing else serves them.
///   dispatcher/src/fmha_dispatcher.cpp (select_first_fit) and example/ck_tile/01_fmha of Composable Kernel, 2026-05
[[nodiscard]] Result<Ranking> upstream_ranking(const CkFacts& facts, const AttentionProblem& problem);

/// Whether a recipe runs on the chip and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CkFacts& facts, const Recipe& recipe, const AttentionProblem& problem);

/// Every other instance with the problem's traits and head dims, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CkFacts& facts, const AttentionProblem& problem);

/// The argument num_splits of a call of a split instance with blocks of `n0` keys: the problem's own, or the least
/// whose blocks fill rounds of the chip to within 0.85 of the best. Upstream's rule, and no more parts than blocks of
/// keys.
[[nodiscard]] std::int64_t ck_num_splits(const CkFacts& facts, const AttentionProblem& problem, int n0);

}  // namespace tilesmith
