// The launch of a CUDA kernel for groups of a few channels (kernels/cuda/conv/grouped).
#pragma once

#include <array>
#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaGroupedWork {
  std::array<int, 3> phases{}, tiles_along{};  ///< by coordinate; of the largest phase
  std::int64_t tiles = 0;                      ///< of a block of channels, in all
  std::int64_t units = 0;                      ///< blocks of channels, times parts of the filter where the result is w
  std::int64_t runs = 1;                       ///< into which the tiles are cut
  int depth_steps = 1;                         ///< of a tile
  std::int64_t stage_bytes = 0, shared_bytes = 0;
  double seconds = 0;  ///< predicted
};
[[nodiscard]] CudaGroupedWork cuda_grouped_work(const KernelConfig& config, const CudaSpec& spec,
                                                const ConvProblem& problem);

}  // namespace tilesmith
