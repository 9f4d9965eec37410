// Which CPU kernels compute an attention-backward problem, and which of them goes first.
#pragma once

#include <span>

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/cpu/facts.hpp"
#include "tilesmith/attention_backward.hpp"

namespace tilesmith {

/// The kernels of every level the machine runs that compute the problem, by predicted seconds. Error: unsupported, when
/// there is none.
[[nodiscard]] Result<Ranking> rank(const CpuFacts& facts, const AttentionBackwardProblem& problem);

/// Of the kernels that are linked into the library those that run on the machine and compute the problem.
[[nodiscard]] std::vector<Candidate> fallbacks(const CpuFacts& facts, const AttentionBackwardProblem& problem,
                                               std::span<const KernelConfig> linked);

/// Whether a kernel runs on the machine and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CpuFacts& facts, const KernelConfig& config, const AttentionBackwardProblem& problem);

/// The flash kernels that do not compute the problem, each with the first reason.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const AttentionBackwardProblem& problem);

}  // namespace tilesmith
