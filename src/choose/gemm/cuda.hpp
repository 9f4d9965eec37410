// Which CUDA kernels compute a GEMM problem, and which of them goes first.
#pragma once

#include "choose/candidate.hpp"
#include "choose/gemm/cuda_shape.hpp"
#include "choose/refusal.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// The kernels that compute a problem, the one to run first in front: kernels for few rows, the tile table's first
/// choice for the sizes, then the others by predicted seconds; behind them stream-K, and what may give other bits from
/// run to run. Of a row of the tile table the kernel with the widest accesses that suit the problem. `spec` has the
/// figures of the device at hand, or of the architecture's reference chip. Errors: unsupported, with the refusing rule
/// and its figures, when there is none.
[[nodiscard]] Result<Ranking> rank(const CudaSpec& spec, const GemmProblem& problem);

/// The same for kernels of any signature, for example of lists of GEMMs; empty when the rules refuse all.
[[nodiscard]] std::vector<Candidate> ranked_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature,
                                                      const CudaGemmShape& shape);

/// Why no kernel has the signature: the first rule that refuses it.
[[nodiscard]] Error no_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature);

/// Whether a kernel runs on the device and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CudaSpec& spec, const KernelConfig& config, const GemmProblem& problem);

/// Every other config of the tile table with the problem's signature, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const GemmProblem& problem);

}  // namespace tilesmith
