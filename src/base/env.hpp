// Every environment variable Tilesmith obeys, in one place. A process whose privileges changed at exec (set-uid, file
// capabilities) obeys none: its caller must not choose where it loads code from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

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
/// Processors in this process's affinity mask, at least 1.
[[nodiscard]] int usable_processors();

}  // namespace tilesmith
