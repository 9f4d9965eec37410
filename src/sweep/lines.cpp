#include "sweep/lines.hpp"

#include "base/file.hpp"

namespace tilesmith {

bool is_file_of_lines(const std::string& path) {
  return path.ends_with(".txt");
}

Result<std::vector<LineOfFile>> read_lines(const std::string& path) {
  constexpr std::uint64_t kFileLimit = 16u << 20;
  TS_ASSIGN(const std::string text, read_file(path, kFileLimit));
  return parse_lines(text, path);
}

}  // namespace tilesmith
