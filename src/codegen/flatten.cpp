#include "codegen/flatten.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>

namespace tilesmith {
namespace {

class Flattener {
 public:
  explicit Flattener(std::span<const EmbeddedFile> files) : files_(files) {}

  Status add(const std::string& path) {
    if (!seen_.insert(path).second) return {};
    const EmbeddedFile* file = nullptr;
    for (const EmbeddedFile& each : files_)
      if (each.path == path) file = &each;
    if (file == nullptr) return fail(ErrorCode::internal, fmt::format("kernel template '{}' is not embedded", path));
    std::string_view rest = file->text;
    bool fresh = true;  // the next line is the first of this file, or the first after another's
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line == "#pragma once") continue;
      if (line.starts_with("#include")) {
        TS_TRY(include(path, line));
        fresh = true;
        continue;
      }
      if (fresh && !line.empty()) {
        text_ += fmt::format("// ---- {}\n", path);
        fresh = false;
      }
      text_ += line;
      text_ += '\n';
    }
    return {};
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  Status include(const std::string& from, std::string_view line) {
    const std::size_t open = line.find('"'), close = line.rfind('"');
    if (open == std::string_view::npos || open == close)
      return fail(ErrorCode::internal, fmt::format("kernel template '{}': {}", from, line),
                  "templates include templates only");
    const auto path = std::filesystem::path(from).parent_path() / line.substr(open + 1, close - open - 1);
    return add(path.lexically_normal().generic_string());
  }

  std::span<const EmbeddedFile> files_;
  std::set<std::string> seen_;
  std::string text_;
};

}  // namespace

Result<std::string> flatten_includes(std::span<const EmbeddedFile> files, std::string_view entry) {
  Flattener flattener(files);
  TS_TRY(flattener.add(std::string(entry)));
  return flattener.take();
}

}  // namespace tilesmith
