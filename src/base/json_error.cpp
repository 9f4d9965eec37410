#include "base/json_error.hpp"

#include <string_view>

namespace tilesmith {

std::string words_of(const nlohmann::json::exception& error) {
  std::string_view words = error.what();
  const std::size_t tag = words.starts_with("[json.exception.") ? words.find("] ") : std::string_view::npos;
  if (tag != std::string_view::npos) words.remove_prefix(tag + 2);
  return std::string(words);
}

}  // namespace tilesmith
