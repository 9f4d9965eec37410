#include "capi/device.hpp"

#include <fmt/format.h>

namespace tilesmith::capi {

tilesmith_device device_in_c(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return {TILESMITH_CPU, device.index};
    case DeviceKind::cuda:
      return {TILESMITH_CUDA, device.index};
    case DeviceKind::hip:
      return {TILESMITH_HIP, device.index};
  }
  return {-1, device.index};  // no tilesmith_device_kind: no call takes it back
}

Result<Device> device_from_c(tilesmith_device device, Device fallback) {
  switch (device.kind) {
    case TILESMITH_DEVICE_DEFAULT:
      if (device.index == 0) return fallback;
      break;
    case TILESMITH_CPU:
      if (device.index == 0) return Device{};
      break;
    case TILESMITH_CUDA:
      if (device.index >= 0 && device.index < kMaxDevices) return Device{DeviceKind::cuda, device.index};
      break;
    case TILESMITH_HIP:
      if (device.index >= 0 && device.index < kMaxDevices) return Device{DeviceKind::hip, device.index};
      break;
    default:
      return fail(ErrorCode::invalid_argument, fmt::format("the device's kind is {}", device.kind),
                  "a tilesmith_device_kind");
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("the device's index is {} with the kind {}", device.index, device.kind),
              fmt::format("0, or for CUDA and HIP 0 to {}", kMaxDevices - 1));
}

}  // namespace tilesmith::capi
