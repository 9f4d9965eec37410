// One attention-backward call's structure as the C++ interface's problem and arguments.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith::capi {

/// Errors: invalid_argument, a field set that no trait asks for, or what is wrong with the call of attention forward.
[[nodiscard]] Result<AttentionBackwardProblem> problem_of(const tilesmith_attention_gradients& call, Device device);
/// Errors: as the forward's.
[[nodiscard]] Result<AttentionBackwardArguments> arguments_of(const tilesmith_attention_gradients& call, Device device);

}  // namespace tilesmith::capi
