// What a CPU attention instance computes, counted: the terms of the model that predicts its seconds
// (src/spec/cpu/attention_model.hpp).
//
// A flash tile of m queries (of several heads, where those share keys and are short) walks over blocks of n keys, a
// strip of queries at a time; a decode task has up to eight rows that share keys, sixteen on matrix tiles. Of packed
// sequences the longest alone is known: the others are taken to be spread evenly below it, queries and keys each for
// themselves.
#pragma once

#include <cstdint>

#include "spec/cpu/spec.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds at a cycle of the level's clock for each of what is counted. Whole tasks for each thread, since that is what
/// runs.
[[nodiscard]] CpuAttentionTerms cpu_attention_terms(const AttentionProblem& problem, const KernelConfig& config,
                                                    const CpuSpec& spec, int threads);

/// Pieces a decode kernel cuts the keys into, so that every thread has work: 1 for other pipelines.
[[nodiscard]] std::int64_t splits_for(const AttentionProblem& problem, const KernelConfig& config, int threads);

}  // namespace tilesmith
