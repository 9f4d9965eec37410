#include "capi/sized_struct.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilesmith::capi {
namespace {

// No structure of any version is longer: a size beyond it is memory nobody initialised.
constexpr std::uint64_t kLongest = 1 << 16;

}  // namespace

Status check_struct(const char* name, const void* given, std::size_t known, EarlierSizes earlier) {
  if (given == nullptr)
    return fail(ErrorCode::invalid_argument, fmt::format("the {} is null", name),
                "the address of one that its _INIT macro set");
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size == known || std::ranges::find(earlier, size) != earlier.end()) return {};
  if (size < known || size > kLongest)
    return fail(ErrorCode::invalid_argument, fmt::format("{}.struct_size is {}", name, size),
                fmt::format("sizeof({}), which is {}; its _INIT macro sets it", name, known));
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; }))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}.struct_size is {}, and fields beyond the {} bytes this library knows are set", name,
                            size, known),
                "a newer library, or these fields left at zero");
  return {};
}

}  // namespace tilesmith::capi
