// Static objects that are never destroyed. exit() destroys static objects while other threads still run, and one of
// those may be planning a call. The shared library registers no destructor at all (tests/package holds it to that).
#pragma once

#include <utility>

namespace tilesmith {

/// For `static const auto& name = lasting(...)`.
template <class T>
[[nodiscard]] const T& lasting(T value) {
  return *new const T(std::move(value));
}

}  // namespace tilesmith
