// GEMM in float64, from inputs already rounded to their storage type: what every kernel is compared with.
//
// Each element comes with a bound: how far a kernel that sums in fp32 may be off before its last rounding. The bound
// begins with the error of the sum (tolerance.hpp) and is carried through the epilogue, operation by operation.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "verify/gemm/tensors.hpp"

namespace tilesmith {

struct Float64Gemm {
  std::vector<double> d;         ///< batch x m x columns of D, before rounding
  std::vector<double> bound;     ///< of each element: the largest error of a kernel that rounds to fp32 only
  std::vector<float> magnitude;  ///< of each element: the sum of its terms' absolute values
  double amax = 0;               ///< the largest |d|; 0 when d is empty
  double amax_bound = 0;         ///< the largest bound
};

struct GemmArithmetic {
  double accumulator_roundoff = 0x1p-24;  ///< of the sums; 0: they are exact
  double function_roundoff = 0x1p-24;     ///< of the activations' functions
  bool wraps = false;                     ///< sums and results are int32, modulo 2^32
};

/// threads = 0: as many as the machine has. The result does not depend on it.
[[nodiscard]] Result<Float64Gemm> float64_gemm(const GemmTensors& tensors, const GemmArithmetic& arithmetic,
                                               unsigned threads = 0);

}  // namespace tilesmith
