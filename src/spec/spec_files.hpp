// The JSON facts of specs/: compiled into the library, each replaceable by a file of the same path in
// TILESMITH_SPEC_DIR.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

/// The text of a spec, "cpu/x86_64_v4.json": the file in TILESMITH_SPEC_DIR when it is there, else the one compiled in.
[[nodiscard]] Result<std::string> spec_file_text(std::string_view path);

/// The paths of all specs in a folder of specs/ ("cpu"), compiled in or in TILESMITH_SPEC_DIR, sorted.
[[nodiscard]] Result<std::vector<std::string>> spec_files(std::string_view folder);

}  // namespace tilesmith
