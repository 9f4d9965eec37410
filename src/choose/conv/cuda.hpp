// Which CUDA kernels compute a convolution problem, and which of them goes first. What a pipeline's kernels take for a
// problem, and whether they suit it, stands in a file of its own for each (cuda_pipelines.hpp).
#pragma once

#include "choose/candidate.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/kept.hpp"
#include "choose/refusal.hpp"
#include "instances/conv/cuda_asked.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// The signature of the kernels for the problem that take `spatial_dims` dimensions; 3: any number up to three.
[[nodiscard]] ConvSignature cuda_signature_of(const ConvProblem& problem, int spatial_dims = 3);

/// What the rules said of signatures whose problems were ranked, and of those of the products that some are, of one
/// spec that outlives it. Null: nothing is kept.
using CudaConvKept = Kept<ConvSignature, CudaConvAsked>;
struct CudaConvMemory {
  CudaConvKept* own = nullptr;
  CudaGemmKept* products = nullptr;
};

/// The kernels of the chip's tables that compute the problem, by predicted seconds; in front of them, where it is a
/// product of matrices as they lie, GEMM's kernels in GEMM's order. Error: unsupported, when there is none.
[[nodiscard]] Result<Ranking> rank(const CudaSpec& spec, const ConvProblem& problem, CudaConvMemory memory = {});

/// The problem as the kernel computes it: those of fewer than three dimensions take slices as images.
[[nodiscard]] ConvProblem cuda_conv_seen(const KernelConfig& config, const ConvProblem& problem);

/// Whether a kernel runs on the chip and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CudaSpec& spec, const KernelConfig& config, const ConvProblem& problem);

/// What the tables have and the problem does not get.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const ConvProblem& problem);

}  // namespace tilesmith
