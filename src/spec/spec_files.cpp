#include "spec/spec_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include "base/embedded.hpp"
#include "base/env.hpp"
#include "base/file.hpp"

namespace tilesmith {

std::span<const EmbeddedFile> embedded_specs();

namespace fs = std::filesystem;

namespace {

/// Whether `directory` has any of the folders that specs are in. A misspelt one has none, and would change nothing.
bool is_laid_out_like_specs(const fs::path& directory) {
  return std::ranges::any_of(embedded_specs(), [&](const EmbeddedFile& file) {
    std::error_code code;
    return fs::is_directory(directory / file.path.substr(0, file.path.find('/')), code);
  });
}

}  // namespace

Result<std::string> spec_file_text(std::string_view path) {
  constexpr std::uint64_t kMaxBytes = 16u << 20;
  if (const std::optional<fs::path> directory = spec_directory()) {
    const fs::path file = *directory / path;
    std::error_code missing;
    if (fs::exists(file, missing)) {
      std::error_code code;
      if (!fs::is_regular_file(file, code))
        return fail(ErrorCode::io, fmt::format("{} is not a regular file", file.string()));
      auto text = read_file(file, kMaxBytes);
      if (!text) text.error().hint = "TILESMITH_SPEC_DIR names this folder";
      return text;
    }
  }
  for (const EmbeddedFile& file : embedded_specs())
    if (file.path == path) return std::string(file.text);
  return fail(ErrorCode::not_found, fmt::format("there is no spec {}", path));
}

Result<std::vector<std::string>> spec_files(std::string_view folder) {
  std::set<std::string> paths;
  const std::string prefix = fmt::format("{}/", folder);
  for (const EmbeddedFile& file : embedded_specs())
    if (file.path.starts_with(prefix)) paths.emplace(file.path);
  if (const std::optional<fs::path> directory = spec_directory()) {
    std::error_code code;
    if (!fs::is_directory(*directory, code))
      return fail(ErrorCode::io, fmt::format("TILESMITH_SPEC_DIR is {}, which is not a directory", directory->string()),
                  "a folder laid out like specs/");
    if (!is_laid_out_like_specs(*directory))
      return fail(ErrorCode::io,
                  fmt::format("TILESMITH_SPEC_DIR is {}, which has no folder of specs", directory->string()),
                  "a folder laid out like specs/: cpu/x86_64_v4.json");
    for (fs::directory_iterator it(*directory / folder, code), end; !code && it != end; it.increment(code))
      if (it->path().extension() == ".json") paths.insert(prefix + it->path().filename().string());
  }
  return std::vector<std::string>(paths.begin(), paths.end());
}

}  // namespace tilesmith
