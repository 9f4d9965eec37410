#include "jit/toolchain.hpp"

#include <fmt/core.h>

namespace tilesmith {

std::string quote_log(const std::string& text) {
  constexpr std::size_t kQuotedBytes = 4096;
  if (text.size() <= kQuotedBytes) return text;
  return text.substr(0, kQuotedBytes) + fmt::format("\n[{} bytes more]", text.size() - kQuotedBytes);
}

}  // namespace tilesmith
