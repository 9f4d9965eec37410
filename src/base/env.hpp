// Every environment variable Tilesmith obeys, in one place. A process whose privileges changed at exec (set-uid, file
// capabilities) obeys none: its caller must not choose where it loads code from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

/// The variable's value; nothing when it is unset, empty, or must be ignored.
[[nodiscard]] std::optional<std::string> env(const char* name);

enum class CacheOrigin : std::uint8_t { variable, default_location };

struct CacheDirectory {
  std::filesystem::path path;
  CacheOrigin origin = CacheOrigin::default_location;
};

/// TILESMITH_CACHE_DIR, else XDG_CACHE_HOME/tilesmith, else HOME/.cache/tilesmith; not_found when the machine offers
/// none.
[[nodiscard]] Result<CacheDirectory> cache_directory();
/// TILESMITH_SPEC_DIR.
[[nodiscard]] std::optional<std::filesystem::path> spec_directory();
/// TILESMITH_WORKERS (1..1024), else the processors this process may use.
[[nodiscard]] Result<int> worker_count();
/// Whether TILESMITH_BUILD is `never`: no kernel is compiled, whatever a caller permits.
[[nodiscard]] bool building_is_off();
/// The value of a variable that is one of a few words (TILESMITH_LOG, TILESMITH_BUILD, TILESMITH_DETERMINISM); nothing
/// when it is unset. Error: invalid_argument, another word.
[[nodiscard]] Result<std::optional<std::string>> env_word(std::string_view name);
/// Whether every variable with a restricted value has one of its values. Errors: invalid_argument, with the variable,
/// its value and what would be right.
[[nodiscard]] Status check_environment();
/// Processors in this process's affinity mask, at least 1.
[[nodiscard]] int usable_processors();

}  // namespace tilesmith
