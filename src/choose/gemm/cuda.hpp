// Which CUDA kernels compute a GEMM problem, and which of them goes first.
#pragma once

#include "base/function_ref.hpp"
#include "choose/candidate.hpp"
#include "choose/gemm/cuda_shape.hpp"
#include "choose/gemm/cuda_work.hpp"
#include "choose/kept.hpp"
#include "choose/refusal.hpp"
#include "instances/gemm/cuda_asked.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// What the rules said of signatures whose problems were ranked, of one spec that outlives it: a new problem of them is
/// ranked in a third of the time.
using CudaGemmKept = Kept<GemmSignature, CudaGemmAsked>;

/// The kernels that compute a problem, the one to run first in front: kernels for few rows, the tile table's first
/// choice for the sizes, then the others by predicted seconds; behind them stream-K, and what may give other bits from
/// run to run. Of a row of the tile table the kernel with the widest accesses that suit the problem. `spec` has the
/// figures of the device at hand, or of the architecture's reference chip. Errors: unsupported, with the refusing rule
/// and its figures, when there is none.
[[nodiscard]] Result<Ranking> rank(const CudaSpec& spec, const GemmProblem& problem, CudaGemmKept* kept = nullptr);

/// The same for kernels of any signature, for example of lists of GEMMs; empty when the rules refuse all.
[[nodiscard]] std::vector<Candidate> ranked_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature,
                                                      const CudaGemmShape& shape, CudaGemmKept* kept = nullptr);

/// A candidate of rank(), and what its predicted seconds follow from.
struct CudaGemmPriced {
  const KernelConfig& config;
  const CudaGemmResources& facts;
  const CudaGemmTile& row;
  const CudaGemmWork& work;
  double seconds;
};
/// Shows each of them in no order, for operations that are products and have an order of their own.
void price(const CudaSpec& spec, const GemmProblem& problem, CudaGemmKept* kept,
           FunctionRef<void(const CudaGemmPriced&)> show);

/// Why no kernel has the signature: the first rule that refuses it.
[[nodiscard]] Error no_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature);

/// Whether a kernel runs on the device and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CudaSpec& spec, const KernelConfig& config, const GemmProblem& problem);

/// Every other config of the tile table with the problem's signature, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const GemmProblem& problem);

}  // namespace tilesmith
