// The calling thread's last failure, and the wall no exception passes.
#pragma once

#include <exception>
#include <new>

#include "base/error.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {

/// Keeps the error for tilesmith_last_error and gives its status.
tilesmith_status keep(const Error& error) noexcept;
/// The same for what was thrown; called in a handler.
tilesmith_status keep_thrown() noexcept;

/// Runs the body of a C function: its error is kept, nothing it throws gets out.
template <class Body>
tilesmith_status guarded(Body body) noexcept {
  try {
    const Status status = body();
    return status ? TILESMITH_SUCCESS : keep(status.error());
  } catch (...) {
    return keep_thrown();
  }
}

}  // namespace tilesmith::capi
