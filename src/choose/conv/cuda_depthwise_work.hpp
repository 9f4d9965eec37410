// The launch of a depthwise CUDA kernel: how its blocks share channels and pixels (kernels/cuda/conv/depthwise).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "instances/conv/cuda_resources.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// One coordinate, as phase_along() of kernels/cuda/conv/depthwise/steps.cuh cuts it; of the phases the largest.
struct CudaConvAxis {
  std::int64_t phases, results, taps, pace;
};
[[nodiscard]] CudaConvAxis cuda_conv_axis(const ConvProblem& problem, std::size_t d);

/// Along the innermost coordinate: the most taps that meet a result, and the pixels from one result's first to the
/// next's, in steps of the dilation.
struct CudaDepthwiseRow {
  std::int64_t taps = 0, pace = 0;
};
[[nodiscard]] CudaDepthwiseRow cuda_depthwise_row(const ConvProblem& problem);

/// How a block shares out its threads.
struct CudaDepthwiseShape {
  int lanes = 0;                               ///< along its channels
  std::array<int, 3> phases{}, tiles_along{};  ///< by coordinate; of the largest phase
  std::int64_t tiles = 0;                      ///< of a block of channels, in all
  std::int64_t units = 0;                      ///< blocks of channels, times parts of the filter where the result is w
  int depth_steps = 1;                         ///< of a tile
  std::int64_t stage_bytes = 0, shared_bytes = 0;
  std::int64_t part_bytes = 0;  ///< of a run's sums; 0 where the result is not w
  double instructions = 0;      ///< of a warp for a step
};
/// Those whose tiles fit shared memory.
[[nodiscard]] std::vector<CudaDepthwiseShape> cuda_depthwise_shapes(const KernelConfig& config,
                                                                    const ConvProblem& problem);

struct CudaDepthwiseWork {
  CudaDepthwiseShape shape;
  std::int64_t runs = 1;  ///< into which the tiles are cut
  double seconds = 0;     ///< predicted
  [[nodiscard]] std::int64_t blocks() const { return shape.units * runs; }
};
/// With the shape that is predicted to take least time, of which there is one.
[[nodiscard]] CudaDepthwiseWork cuda_depthwise_work(const KernelConfig& config, const CudaSpec& spec,
                                                    const ConvProblem& problem);

}  // namespace tilesmith
