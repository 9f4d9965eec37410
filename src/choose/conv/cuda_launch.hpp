// What a CUDA convolution kernel that takes nothing but TsCudaConvArgs is launched with.
#pragma once

#include <array>
#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// What a kernel is launched with for a problem.
struct CudaConvLaunch {
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t shared_bytes = 0;
  std::int64_t splits = 1;                    ///< parts, or runs, into which the sum or the tiles are cut
  std::int64_t part_bytes = 0, counters = 0;  ///< of the whole launch; none where no partials are left
  // Depthwise alone, as in kernels/cuda/conv/abi.h.
  int lanes = 0, depth_steps = 0;
  std::array<int, 3> phases{}, tiles{};
  std::int64_t stage_bytes = 0;
  bool joins = false;  ///< a second launch adds up what the runs left
  /// Of banded kernels, which read through tensor maps: the most taps, others 0; and the images of a tile.
  int band_taps = 0, band_images = 1;
};

/// For a problem that the kernel suits.
[[nodiscard]] CudaConvLaunch cuda_conv_launch(const KernelConfig& config, const CudaSpec& spec,
                                              const ConvProblem& problem);

}  // namespace tilesmith
