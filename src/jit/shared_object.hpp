// Whether a file that a compiler wrote is a whole shared object. The loader trusts what it maps: a file that was cut
// short kills the process by SIGBUS or SIGSEGV, and a digest made of the torn file says that it is as it was written.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

/// Looks at the bytes alone: headers, segments, sections and dynamic tables lie within the file, and every symbol is
/// defined and exported. Errors: `internal`, with what is wrong.
[[nodiscard]] Status check_shared_object(std::string_view bytes, std::span<const std::string> symbols);

/// Has the system's loader load and relocate `directory`/`file` in a process of its own. A file system without
/// execution, or a system without the program to load it into, proves nothing and is no error. Errors: `internal`, with
/// the loader's words or the signal that killed it.
[[nodiscard]] Status try_loading(const std::filesystem::path& directory, const std::string& file);

}  // namespace tilesmith
