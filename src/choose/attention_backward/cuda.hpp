// Which CUDA kernels compute an attention-backward problem, and which of them goes first.
#pragma once

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/attention_backward.hpp"

namespace tilesmith {

/// The signature of the kernels of dq, dk and dv that carry exactly the problem's traits. A mask bounded on the right
/// alone is causal, one with a left bound generic; sinks and the gradient of the log-sum-exp are no traits of a kernel,
/// and the gradient of slopes is that of their bias. Not `deterministic`: every problem has kernels of both kinds.
[[nodiscard]] AttentionSignature cuda_signature_of(const AttentionBackwardProblem& problem);

/// The recipes whose products have exactly the problem's signature, by predicted seconds. `spec` has the figures of the
/// device at hand, or of the architecture's reference chip. Errors: unsupported, with the refusing rule and its
/// figures, when there is none.
[[nodiscard]] Result<Ranking> rank(const CudaSpec& spec, const AttentionBackwardProblem& problem);

/// Whether a recipe runs on the device and computes the problem, perhaps with traits the problem does not use.
/// Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CudaSpec& spec, const Recipe& recipe, const AttentionBackwardProblem& problem);

/// Every other config of the tile table with the problem's signature, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const AttentionBackwardProblem& problem);

}  // namespace tilesmith
