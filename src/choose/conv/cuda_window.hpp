// The product that the Hopper convolution kernels compute (kernels/cuda/conv/hopper/abi.h), and its windows.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "choose/gemm/cuda_work.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// One coordinate of the image that is read: x forward, y in backward data.
struct CudaConvWindow {
  std::int64_t pixels = 1;    ///< of the image
  std::int64_t places = 1;    ///< of the window: pixels of the result
  std::int64_t lower = 0;     ///< the pixel of the image at the first place
  std::int64_t step = 1;      ///< from one place to the next
  std::int64_t offset = 0;    ///< from a place's pixel to that of the first tap
  std::int64_t tap_step = 1;  ///< from tap to tap, below 0 in backward data
  std::int64_t reach = 0;     ///< the largest offset
  /// The last place's pixel, less the last of the image: where the copy engine ends a row of places.
  [[nodiscard]] std::int64_t upper() const { return lower + (places - 1) * step - (pixels - 1); }
};
/// Outer to inner.
[[nodiscard]] std::array<CudaConvWindow, 3> cuda_conv_windows(const ConvProblem& problem);

/// The product's sizes: its k counts whole steps of 64 channels.
[[nodiscard]] CudaGemmShape cuda_window_shape(const ConvProblem& problem);

/// How a launch of such a kernel divides it.
[[nodiscard]] CudaGemmWork cuda_window_work(const KernelConfig& config, const CudaSpec& spec,
                                            const ConvProblem& problem);

/// Why the copy engine cannot bring the problem's windows to a kernel of so many coordinates; nothing when it can.
[[nodiscard]] std::optional<std::string> cuda_window_obstacle(const ConvProblem& problem, int spatial_dims);

}  // namespace tilesmith
