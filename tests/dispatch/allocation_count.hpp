// Counts this thread's heap allocations: the program's operator new is replaced by one that counts.
#pragma once

#include <cstddef>

namespace tilesmith::testing {

/// Calls of operator new by this thread since it began.
[[nodiscard]] std::size_t allocations();

}  // namespace tilesmith::testing
