// Hopper's convolution kernels are GEMM's warp-specialised ones, fed by im2col copies: what of them is GEMM's, asked of
// GEMM.
#pragma once

#include "vocabulary/config.hpp"

namespace tilesmith {

/// The GEMM kernel whose tiles, epilogue and resources a convolution kernel of pipeline warpspec has.
[[nodiscard]] KernelConfig gemm_of_window(const KernelConfig& conv);

/// Taps that a step has, each with an equal share of its channels (backward weight: of 64 columns): 1, 2 or 4. Where
/// there are more than one, the tile's fourth figure says so.
[[nodiscard]] int window_step_taps(const Algorithm& algorithm);

}  // namespace tilesmith
