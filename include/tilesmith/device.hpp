// Where kernels run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilesmith/error.hpp"

namespace tilesmith {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// The CPU, or the index-th CUDA device in the driver's order (which CUDA_VISIBLE_DEVICES decides).
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< 0 for the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:1".
[[nodiscard]] TILESMITH_API std::string to_string(Device device);
/// The inverse; "cuda" is "cuda:0". Errors: parse.
[[nodiscard]] TILESMITH_API Result<Device> parse_device(std::string_view text);

}  // namespace tilesmith
