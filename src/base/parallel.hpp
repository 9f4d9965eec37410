// Independent pieces of work on several threads, for references, random fills and sweeps: not the hot path of a kernel
// launch.
#pragma once

#include <cstddef>

#include "base/function_ref.hpp"

namespace tilesmith {

/// Calls body(index) once for every index below count, started in increasing order, on up to `threads` threads (0: as
/// many as the machine has), on fewer where the system refuses them. Returns when all have ended. The body must not
/// throw, and its result must not depend on which thread runs it.
void parallel_for(std::size_t count, unsigned threads, FunctionRef<void(std::size_t)> body);

}  // namespace tilesmith
