#include "tilesmith/device.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/error.hpp"

namespace tilesmith {
namespace {

constexpr std::array kKinds{DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip};

/// How a kind is written; empty for a value that is no kind.
constexpr std::string_view name_of_kind(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::hip:
      return "hip";
  }
  return "";
}

}  // namespace

std::string to_string(Device device) {
  const std::string_view kind = name_of_kind(device.kind);
  if (kind.empty()) return fmt::format("device of unknown kind {}", static_cast<int>(device.kind));
  return is_gpu(device.kind) ? fmt::format("{}:{}", kind, device.index) : std::string(kind);
}

Result<Device> parse_device(std::string_view text) {
  for (const DeviceKind kind : kKinds) {
    const std::string_view name = name_of_kind(kind);
    if (text == name) return Device{kind, 0};
    if (!is_gpu(kind) || !text.starts_with(name) || text.substr(name.size(), 1) != ":") continue;
    const std::string_view digits = text.substr(name.size() + 1);
    int index = -1;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (code == std::errc{} && end == digits.data() + digits.size() && index >= 0) return Device{kind, index};
  }
  return fail(ErrorCode::parse, fmt::format("'{}' is no device", text), "cpu, cuda:N, or hip:N for an AMD GPU");
}

}  // namespace tilesmith
