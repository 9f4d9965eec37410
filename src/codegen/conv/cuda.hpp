// The source of a CUDA convolution kernel: the table of constants that its template reads, then the template of
// kernels/cuda/conv with everything it includes.
#pragma once

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// `config` is one the rules accept (instances/conv/cuda.hpp). As of cuda_gemm_source.
[[nodiscard]] Result<Source> cuda_conv_source(const KernelConfig& config);

}  // namespace tilesmith
