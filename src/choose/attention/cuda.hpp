// Which CUDA kernels compute an attention problem, and which of them goes first.
#pragma once

#include <utility>
#include "choose/attention/cuda_model.hpp"

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// The kernels whose signature is exactly the problem's, the one to run first in front: by predicted seconds
/// where the spec has a model fitted for the signature, with an advantage for the tile table's choice; elsewhere that
/// choice, then the others by predicted seconds. The table packs heads where that leaves fewer tiles. `spec` has the
/// figures of the device at hand, or of the architecture's reference chip. Errors: unsupported, with the refusing rule
/// and its figures, when there is none.
[[nodiscard]] Result<Ranking> rank(const CudaSpec& spec, const AttentionProblem& problem);

/// The same for kernels of any signature; empty when the rules refuse all.
[[nodiscard]] std::vector<Candidate> ranked_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature,
                                                           const CudaAttentionShape& shape);

/// The terms of every kernel that `rank` ranks, but of those for few queries, which have a model of their own.
[[nodiscard]] std::vector<ModelTerms> model_terms(const CudaSpec& spec, const AttentionProblem& problem);

/// Whether a kernel runs on the device and computes the problem, perhaps with traits the problem does not use.
/// Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CudaSpec& spec, const KernelConfig& config, const AttentionProblem& problem);

/// Every other config of the tile table with the problem's signature, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const AttentionProblem& problem);

}  // namespace tilesmith
