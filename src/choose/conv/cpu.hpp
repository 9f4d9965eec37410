// Which CPU kernels compute a convolution problem, and which of them goes first.
#pragma once

#include <span>

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/cpu/facts.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// The kernels of every level the machine runs that compute the problem, by predicted seconds; of a packed w the one
/// that it is packed for. Error: unsupported, when there is none.
[[nodiscard]] Result<Ranking> rank(const CpuFacts& facts, const ConvProblem& problem);

/// What the model counts of the kernels that rank() lists.
[[nodiscard]] std::vector<ModelTerms> model_terms(const CpuFacts& facts, const ConvProblem& problem);

/// Of the kernels that are linked into the library those that run on the machine and compute the problem.
[[nodiscard]] std::vector<Candidate> fallbacks(const CpuFacts& facts, const ConvProblem& problem,
                                               std::span<const KernelConfig> linked);

/// Whether a kernel runs on the machine and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CpuFacts& facts, const KernelConfig& config, const ConvProblem& problem);

/// The kernel whose first stage packs w: the best one of a typical problem with these filters. Error: unsupported, when
/// there is none.
[[nodiscard]] Result<KernelConfig> packing_kernel(const CpuFacts& facts, const ConvProblem& problem);

/// The kernels of the problem's direction and type that do not compute it: depthwise ones, of other groups.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const ConvProblem& problem);

}  // namespace tilesmith
