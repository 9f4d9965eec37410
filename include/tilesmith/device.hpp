// Where kernels run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilesmith/error.hpp"

namespace tilesmith {

/// Whoever tells kinds apart does it by a switch without a default, so that the compiler names every place that a new
/// kind concerns.
enum class DeviceKind : std::uint8_t { cpu, cuda, hip };

/// Whether calls are queued on a stream, and whether kernels read device memory by copies that ask for alignment.
[[nodiscard]] constexpr bool is_gpu(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return false;
    case DeviceKind::cuda:
    case DeviceKind::hip:
      return true;
  }
  return false;
}

/// The CPU, or the index-th CUDA or AMD device in the order of its driver (which CUDA_VISIBLE_DEVICES or
/// HIP_VISIBLE_DEVICES decides).
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< 0 for the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:1", "hip:0".
[[nodiscard]] TILESMITH_API std::string to_string(Device device);
/// The inverse; "cuda" is "cuda:0", "hip" is "hip:0". Errors: parse, for texts that name no device.
[[nodiscard]] TILESMITH_API Result<Device> parse_device(std::string_view text);

}  // namespace tilesmith
