// One convolution call's structure as the C++ interface's problem and arguments.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/conv.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith::capi {

/// Errors: invalid_argument, a field out of range, or set where the operation of the epilogue does not read it.
[[nodiscard]] Result<ConvProblem> problem_of(const tilesmith_conv& call, Device device = {});
[[nodiscard]] ConvArguments arguments_of(const tilesmith_conv& call);
[[nodiscard]] tilesmith_conv_strides in_c(const ConvStrides& strides);

}  // namespace tilesmith::capi
