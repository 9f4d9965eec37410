// The device code that clang puts into a host's shared object: a section with a bundle of code objects, one for each
// chip (clang's documentation, "Clang Offload Bundler", bundled binary file layout).
#pragma once

#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

/// The code object for the chip ("gfx942") in the bundle of an ELF file's section .hip_fatbin. Error: internal, with
/// what is wrong with the bytes.
[[nodiscard]] Result<std::string_view> bundled_code_object(std::string_view shared_object, std::string_view arch);

}  // namespace tilesmith
