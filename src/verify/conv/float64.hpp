// Convolution in float64, from inputs already rounded to their storage type: what every kernel is compared with. It is
// computed from the definition, term by term, in all three directions.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "verify/conv/tensors.hpp"

namespace tilesmith {

struct Float64Conv {
  std::vector<double> values;    ///< the result, before rounding, at ConvTensors::place
  std::vector<double> bound;     ///< of each element: the largest error of a kernel that rounds to fp32 only
  std::vector<float> magnitude;  ///< of each element: the sum of its terms' absolute values
};

/// `accumulator_roundoff` is that of sums: gemm_tolerance's. threads = 0: as many as the machine has. The result does
/// not depend on it.
[[nodiscard]] Result<Float64Conv> float64_conv(const ConvTensors& tensors, double accumulator_roundoff,
                                               unsigned threads = 0);

}  // namespace tilesmith
