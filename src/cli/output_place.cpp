#include "cli/output_place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.hpp"

namespace tilesmith::cli {

Status check_output_place(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(file, error))
    return fail(ErrorCode::io, fmt::format("cannot write {}: it is a folder", file), "the name of a file");
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return {};  // a pipe or device needs no folder
  const fs::path parent = fs::path(file).parent_path(), folder = parent.empty() ? fs::path(".") : parent;
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  Error wrong = system_error("cannot write to", folder, errno);
  wrong.hint = fmt::format("a folder that takes {}", fs::path(file).filename().string());
  return std::unexpected(std::move(wrong));
}

}  // namespace tilesmith::cli
