// Where results are to be written.
#pragma once

#include <string>

#include "base/error.hpp"

namespace tilesmith::cli {

/// Whether a file can be written there, asked before the work whose result it takes: its folder exists and takes files,
/// and it is none itself. Errors: io.
[[nodiscard]] Status check_output_place(const std::string& file);

}  // namespace tilesmith::cli
