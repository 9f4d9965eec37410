// The products that the Hopper convolution kernels compute (kernels/cuda/conv/hopper/abi.h), and their windows.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "choose/gemm/cuda_work.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// One coordinate of the image that is read: x, in backward data y.
struct CudaConvWindow {
  std::int64_t pixels = 1;    ///< of the image
  std::int64_t places = 1;    ///< of the window: pixels of y, in backward data of a phase of x
  std::int64_t lower = 0;     ///< the pixel of the image at the first place
  std::int64_t step = 1;      ///< from one place to the next
  std::int64_t taps = 1;      ///< that meet a place
  std::int64_t offset = 0;    ///< from a place's pixel to that of the first tap
  std::int64_t tap_step = 1;  ///< from tap to tap, below 0 in backward data
  /// The largest offset.
  [[nodiscard]] std::int64_t reach() const { return tap_step < 0 ? offset : (taps - 1) * tap_step; }
  /// The last place's pixel, less the last of the image: where the copy engine ends a row of places.
  [[nodiscard]] std::int64_t upper() const { return lower + (places - 1) * step - (pixels - 1); }
};
/// Of forward and backward weight, outer to inner.
[[nodiscard]] std::array<CudaConvWindow, 3> cuda_conv_windows(const ConvProblem& problem);

/// A phase of backward data: pixels of x whose coordinates leave the same remainders by the strides.
struct CudaConvPhase {
  std::array<CudaConvWindow, 3> windows;                    ///< outer to inner
  std::array<std::int64_t, 3> first{};                      ///< the first of the pixels
  std::array<std::int64_t, 3> filter_tap{}, filter_step{};  ///< the first of the filter's taps; from one to the next
  std::int64_t taps = 0;                                    ///< that meet each pixel; 0: the result is zeros
  std::int64_t rows = 0;                                    ///< pixels in all images
  std::int64_t steps = 0;                                   ///< of 64 channels in all, at least 1
};
/// Those with most taps first. A step has `step_taps` taps with equal shares of its channels, here and below.
[[nodiscard]] std::vector<CudaConvPhase> cuda_conv_phases(const ConvProblem& problem, int step_taps = 1);

/// The product's sizes: its k counts whole steps of 64 channels, or pixels in backward weight; there n counts whole
/// blocks of channels of each tap. Of backward data all pixels, and all taps.
[[nodiscard]] CudaGemmShape cuda_window_shape(const ConvProblem& problem, int step_taps = 1);

/// How a launch of such a kernel divides it. Ranking knows the kernel's row of the tile table and need not ask.
[[nodiscard]] CudaGemmWork cuda_window_work(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                                            const ConvProblem& problem);
[[nodiscard]] CudaGemmWork cuda_window_work(const KernelConfig& config, const CudaSpec& spec,
                                            const ConvProblem& problem);

/// Why the copy engine cannot bring the problem's windows to a kernel of so many coordinates; nothing when it can.
[[nodiscard]] std::optional<std::string> cuda_window_obstacle(const ConvProblem& problem, int spatial_dims,
                                                              int step_taps = 1);

}  // namespace tilesmith
