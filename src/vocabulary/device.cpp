#include "tilesmith/device.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"

namespace tilesmith {

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

Result<Device> parse_device(std::string_view text) {
  if (text == "cpu") return Device{};
  if (text == "cuda") return Device{DeviceKind::cuda, 0};
  if (text.starts_with("cuda:")) {
    const std::string_view digits = text.substr(5);
    int index = -1;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (code == std::errc{} && end == digits.data() + digits.size() && index >= 0)
      return Device{DeviceKind::cuda, index};
  }
  return fail(ErrorCode::parse, fmt::format("'{}' is no device", text), "cpu, or cuda:N");
}

}  // namespace tilesmith
