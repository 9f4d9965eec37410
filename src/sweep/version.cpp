#include "sweep/version.hpp"

#include <fmt/format.h>

#include "tilesmith_commit.hpp"  // cmake/Commit.cmake writes it

namespace tilesmith {

std::string_view program_version() {
  return TILESMITH_VERSION;
}

std::string_view program_commit() {
  return TILESMITH_COMMIT;
}

std::string version_text() {
  const std::string_view commit = program_commit();
  return commit.empty() ? fmt::format("tilesmith {}", program_version())
                        : fmt::format("tilesmith {} (commit {})", program_version(), commit);
}

}  // namespace tilesmith
