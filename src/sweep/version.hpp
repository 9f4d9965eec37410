// Which Tilesmith this is: its version, and the commit it was built from.
#pragma once

#include <string>
#include <string_view>

namespace tilesmith {

/// "0.1.0"
[[nodiscard]] std::string_view program_version();
/// "8b73da9c40fa", with "+" behind it when files were changed; empty when the sources were in no repository.
[[nodiscard]] std::string_view program_commit();
/// "tilesmith 0.1.0 (commit 8b73da9c40fa)"
[[nodiscard]] std::string version_text();

}  // namespace tilesmith
