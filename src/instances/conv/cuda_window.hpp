// Hopper's convolution kernels are GEMM's warp-specialised ones, fed by im2col copies: what of them is GEMM's, asked of
// GEMM.
#pragma once

#include "vocabulary/config.hpp"

namespace tilesmith {

/// The GEMM kernel whose tiles, epilogue and resources a convolution kernel of pipeline warpspec has.
[[nodiscard]] KernelConfig gemm_of_window(const KernelConfig& conv);

}  // namespace tilesmith
