#include "vocabulary/arch_name.hpp"

#include <fmt/format.h>

namespace tilesmith {

Result<ArchName> ArchName::parse(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (text.empty() || text.size() > kMaxLength || !std::ranges::all_of(text, allowed))
    return fail(ErrorCode::invalid_argument, fmt::format("\"{}\" is not an architecture name", text.substr(0, 64)),
                fmt::format("1 to {} characters of a-z, 0-9 and _, for example x86_64_v4", kMaxLength));
  ArchName name;
  std::ranges::copy(text, name.text_.begin());
  name.length_ = static_cast<unsigned char>(text.size());
  return name;
}

}  // namespace tilesmith
