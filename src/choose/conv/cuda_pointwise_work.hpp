// The launch of kernels for few channels and one tap (kernels/cuda/conv/pointwise).
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaPointwiseWork {
  std::int64_t parts = 0;  ///< blocks of a group
  std::int64_t shared_bytes = 0;
  double seconds = 0;  ///< predicted
};
[[nodiscard]] CudaPointwiseWork cuda_pointwise_work(const KernelConfig& config, const CudaSpec& spec,
                                                    const ConvProblem& problem);

}  // namespace tilesmith
