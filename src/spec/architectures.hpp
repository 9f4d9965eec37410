// Every architecture that the facts know, of whatever device, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

/// The names, sorted. Error: a wrong spec.
[[nodiscard]] Result<std::vector<std::string>> known_archs();

/// The architectures that Tilesmith has kernels of its own for: sources are generated and compiled for them.
[[nodiscard]] Result<std::vector<std::string>> own_archs();

/// The error of a verb that needs own kernels ("sources are not generated") on an architecture without: unsupported,
/// with what there is for an AMD chip; invalid_argument for a name that no spec has.
[[nodiscard]] Error no_own_kernels(std::string_view arch, std::string_view what);

}  // namespace tilesmith
