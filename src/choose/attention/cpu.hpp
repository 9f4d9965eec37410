// Which CPU kernels compute an attention problem, and which of them goes first.
#pragma once

#include <span>

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/cpu/facts.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// The kernels of every level the machine runs whose signature is exactly the problem's, by predicted seconds; with one
/// split by those of a usual sequence alone, so that the batch, the lengths, the pages and the threads decide nothing.
/// Errors: unsupported, with the first refusing rule and its figures, when there is none.
[[nodiscard]] Result<Ranking> rank(const CpuFacts& facts, const AttentionProblem& problem);

/// The terms of every kernel that `rank` ranks.
[[nodiscard]] std::vector<ModelTerms> model_terms(const CpuFacts& facts, const AttentionProblem& problem);

/// Of the kernels that are linked into the library those that run on the machine and compute the problem: those with
/// the fewest traits that the problem does not use first.
[[nodiscard]] std::vector<Candidate> fallbacks(const CpuFacts& facts, const AttentionProblem& problem,
                                               std::span<const KernelConfig> linked);

/// Whether a kernel runs on the machine and computes the problem, perhaps with traits the problem does not use: an
/// absent bias, sink or log-sum-exp is a null pointer to the kernel, no dropout a threshold of zero, and every mask is
/// a window. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CpuFacts& facts, const KernelConfig& config, const AttentionProblem& problem);

/// Every other config of the levels' spaces with the problem's signature, and the rule that refuses it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const AttentionProblem& problem);

}  // namespace tilesmith
