// The product that a convolution is for CUDA kernels, and its launch: tiles, steps and parts of the sum.
#pragma once

#include <cstdint>

#include "instances/conv/cuda_resources.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Channels of a group: of the image that is read, and of the result's pixels; in backward weight of x and of y.
[[nodiscard]] std::int64_t read_channels(const ConvProblem& problem);
[[nodiscard]] std::int64_t written_channels(const ConvProblem& problem);

/// One product for each group, and in backward data for each phase (kernels/cuda/conv/phases.cuh); of these the
/// largest.
struct CudaConvShape {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t groups = 1, phases = 1;
};
[[nodiscard]] CudaConvShape cuda_conv_shape(const ConvProblem& problem);

struct CudaConvWork {
  std::int64_t tiles = 0;   ///< of all groups and phases
  std::int64_t steps = 0;   ///< of a tile, before its sum is cut
  std::int64_t places = 0;  ///< blocks that run at the same time
  int splits = 1;
  [[nodiscard]] std::int64_t items() const { return tiles * splits; }
};
/// `most_splits` is the row's limit. A sum is cut into as many parts as fill the chip, each of at least 8 steps.
/// Ranking knows the row and need not ask.
[[nodiscard]] CudaConvWork cuda_conv_work(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                                          const ConvProblem& problem);
[[nodiscard]] CudaConvWork cuda_conv_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem);

/// Coordinates of the image that a kernel has to know, outer ones left out that do nothing.
[[nodiscard]] int cuda_conv_dimensions(const ConvProblem& problem);

/// The widest accesses that a problem's tensors permit.
struct CudaConvAccess {
  bool aligned = false;  ///< what is read begins at multiples of 16 bytes, along the channels that a template asks for
  bool pairs = false;    ///< the result's pixels begin at multiples of two elements
};
[[nodiscard]] CudaConvAccess cuda_conv_access(const ConvProblem& problem);

}  // namespace tilesmith
