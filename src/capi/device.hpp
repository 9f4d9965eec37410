// Devices as the C interface numbers them.
#pragma once

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/device.hpp"

namespace tilesmith::capi {

/// Of one kind; more than any machine has.
inline constexpr int kMaxDevices = 64;

[[nodiscard]] tilesmith_device device_in_c(Device device);

/// `fallback` is what TILESMITH_DEVICE_DEFAULT means. Errors: invalid_argument, a kind or an index that cannot be.
[[nodiscard]] Result<Device> device_from_c(tilesmith_device device, Device fallback);

}  // namespace tilesmith::capi
