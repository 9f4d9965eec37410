// GEMM as a simple framework program computes it: the GEMM, rounded to the output's type, then each operation of the
// epilogue, rounded again. Sums are fp32, in the order of k. Its error is the yardstick of check R.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "verify/gemm/tensors.hpp"

namespace tilesmith {

/// batch x m x columns of D, rounded to `output_type`, a floating type. threads = 0: as many as the machine has.
[[nodiscard]] Result<std::vector<double>> naive_gemm(const GemmTensors& tensors, ElementType output_type,
                                                     unsigned threads = 0);

}  // namespace tilesmith
