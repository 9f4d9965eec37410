// Attention of more queries than keys behind a mask whose diagonal ends at both last ones: the first queries see no
// key. Tiles of queries would each load and multiply a block of keys to find that out. Where it pays, a launch writes
// their zeros, and a plan of the others' problem computes the rest.
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Queries of each sequence that see no key, all in front; 0 where sequences differ in length.
[[nodiscard]] std::int64_t hidden_queries(const AttentionProblem& problem);

/// Whether a launch of its own writes their zeros: their results take longer to write than a launch, some query sees a
/// key, and nothing of the problem counts queries from the first one (dropout, scales of blocks, a log-sum-exp).
[[nodiscard]] bool fills_hidden_queries(const CudaSpec& spec, const AttentionProblem& problem);

/// The problem of the queries behind them.
[[nodiscard]] AttentionProblem with_seen_queries(AttentionProblem problem);

/// What that launch takes.
[[nodiscard]] double fill_seconds(const CudaSpec& spec, const AttentionProblem& problem);

}  // namespace tilesmith
