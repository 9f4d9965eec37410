// Where the performance database is.
#pragma once

#include <filesystem>
#include <string>

#include "base/env.hpp"
#include "base/file.hpp"

namespace tilesmith::cli {

/// What --db says, else tuning.db in the cache directory, which is made when it is not there. Errors: not_found, io.
[[nodiscard]] inline Result<std::filesystem::path> performance_database(const std::string& given) {
  if (!given.empty()) return std::filesystem::path(given);
  TS_ASSIGN(const CacheDirectory cache, cache_directory());
  TS_TRY(make_private_directories(cache.path));
  return cache.path / "tuning.db";
}

}  // namespace tilesmith::cli
