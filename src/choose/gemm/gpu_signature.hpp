// The signature that a GEMM problem's kernels have on GPUs of every vendor.
#pragma once

#include "base/error.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// beta * C is an addition at the head of the epilogue. Error: unsupported when the epilogue is then longer than
/// kernels carry, or B is packed.
[[nodiscard]] Result<GemmSignature> gpu_signature_of(const GemmProblem& problem);

}  // namespace tilesmith
