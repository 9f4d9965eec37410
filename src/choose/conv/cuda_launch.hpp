// What a CUDA convolution kernel that takes nothing but TsCudaConvArgs is launched with.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/conv/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// What kernels that read through tensor maps bring at a time: images of so many rows and columns of pixels, of the
/// block's channels; of backward weight also of y.
struct CudaConvMappedTile {
  int channels = 0;  ///< 0: the kernel has no maps
  int images = 1;
  int rows = 0, columns = 0;
  int rows_of_y = 0, columns_of_y = 0;
  bool swizzled = true;
};

/// What a kernel is launched with for a problem.
struct CudaConvLaunch {
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t shared_bytes = 0;
  std::int64_t splits = 1;                    ///< parts, or runs, into which the sum or the tiles are cut
  int cluster = 1;                            ///< blocks of one
  std::int64_t part_bytes = 0, counters = 0;  ///< of the whole launch; none where no partials are left
  // Depthwise alone, as in kernels/cuda/conv/abi.h.
  int lanes = 0, depth_steps = 0;
  std::array<int, 3> phases{}, tiles{};
  std::int64_t stage_bytes = 0;
  bool joins = false;  ///< a second launch adds up what the runs left
  CudaConvMappedTile mapped{};
  TsCudaConvBoxes boxes{};
};

/// For a problem that the kernel suits.
[[nodiscard]] CudaConvLaunch cuda_conv_launch(const KernelConfig& config, const CudaSpec& spec,
                                              const ConvProblem& problem);

}  // namespace tilesmith
