// The launch of kernels for few channels, whose blocks take boxes of results (kernels/cuda/conv/direct).
#pragma once

#include <cstdint>

#include "kernels/cuda/conv/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaDirectWork {
  TsCudaConvBoxes boxes{};             ///< those that are predicted fastest
  std::int64_t items = 0, blocks = 0;  ///< boxes of all images, groups, phases and columns; blocks that take them
  std::int64_t stage_bytes = 0, shared_bytes = 0;
  double seconds = 0;  ///< predicted
};
[[nodiscard]] CudaDirectWork cuda_direct_work(const KernelConfig& config, const CudaSpec& spec,
                                              const ConvProblem& problem);

/// Channels of x of a group by phases of backward data.
[[nodiscard]] std::int64_t cuda_phase_columns(const ConvProblem& problem);

/// Shared memory that boxes of one result take.
[[nodiscard]] std::int64_t cuda_direct_least_bytes(const Algorithm& algorithm, const ConvProblem& problem);

}  // namespace tilesmith
