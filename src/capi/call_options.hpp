// The options that a context was made with, and those of a single call.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::capi {

/// Of the caller's structure. The device is the one for calls that name none. Errors: invalid_argument.
[[nodiscard]] Result<DispatcherOptions> options_from_c(const tilesmith_context_options* given);

/// What planning is to obey in a call on the device that brings options: they are this thread's until its next such
/// call, so that a repeated call allocates nothing. Errors: invalid_argument.
[[nodiscard]] Result<const DispatcherOptions*> options_of_call(const tilesmith_context_options* given, Device device);

}  // namespace tilesmith::capi
