// One call's structure as the C++ interface's problem and arguments.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/attention.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith::capi {

/// Errors: invalid_argument, a number that is no value of its enumeration, or a field set that no trait asks for.
[[nodiscard]] Result<AttentionProblem> problem_of(const tilesmith_attention& call, Device device);
/// Errors: invalid_argument, offsets beyond the tensors' rows, where the processor can read them.
[[nodiscard]] Result<AttentionArguments> arguments_of(const tilesmith_attention& call, Device device);

}  // namespace tilesmith::capi
