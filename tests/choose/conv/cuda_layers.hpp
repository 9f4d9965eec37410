// What the tests of choosing convolutions on CUDA share.
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith::testing {

[[nodiscard]] const CudaSpec& hopper();

/// Backward data of 64 to 64 channels of bf16 along a line of `in` pixels, with `pad` in front and as much behind as
/// the filter needs.
[[nodiscard]] ConvProblem conv_line(std::int64_t in, std::int64_t filter, std::int64_t stride, std::int64_t dilation,
                                    std::int64_t pad);

}  // namespace tilesmith::testing
