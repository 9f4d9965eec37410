// A convolution that is a product of matrices as they lie (problem/conv/matrix.hpp), planned and run as one.
#pragma once

#include <memory>
#include <string>

#include "dispatch/gemm/cuda.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// `chosen` is a candidate of GEMM. Errors: those of GEMM's plan.
[[nodiscard]] Result<std::unique_ptr<ConvPlan>> conv_by_gemm(const ConvProblem& problem, CudaGemm& gemm,
                                                             const Candidate& chosen, std::string reason,
                                                             BuildPolicy build);

}  // namespace tilesmith
