// What dispatch has to choose from, as the C interface tells it.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::capi {

/// The texts are this thread's until its next call.
[[nodiscard]] Status write_candidates(ChoiceInfo info, tilesmith_candidates* out);

}  // namespace tilesmith::capi
