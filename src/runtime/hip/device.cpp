#include "runtime/hip/device.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/env.hpp"

namespace tilesmith {
namespace {

/// The processor among the device's properties, "gfx942:sramecc+:xnack-", without its settings. It is looked for by its
/// text, because its place in the structure moves from release to release.
Result<std::string> processor_of(const HipLibrary& library, int index, const std::string& name) {
  std::vector<char> properties(hip::kPropertiesBytes, '\0');
  TS_TRY(
      hip_status(library, library.get_device_properties(properties.data(), index), "asking for a device's processor"));
  constexpr std::string_view kPrefix = "gfx";
  for (auto at = properties.cbegin();; ++at) {
    at = std::search(at, properties.cend(), kPrefix.begin(), kPrefix.end());
    if (at == properties.cend()) break;
    const auto end = std::find_if_not(at + kPrefix.size(), properties.cend(),
                                      [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (end - at > 4 && end != properties.cend() && (*end == '\0' || *end == ':')) return std::string(at, end);
  }
  return fail(ErrorCode::unsupported, fmt::format("the HIP runtime does not tell the processor of {}", name));
}

Result<HipDeviceInfo> describe_hip(const HipLibrary& library, int index) {
  HipDeviceInfo info;
  info.index = index;
  info.runtime_version = library.version();
  char name[256] = {};
  TS_TRY(hip_status(library, library.device_get_name(name, sizeof name - 1, index), "asking for a device's name"));
  info.name = name;
  TS_ASSIGN(info.arch, processor_of(library, index, info.name));
  std::size_t bytes = 0;
  TS_TRY(hip_status(library, library.device_total_mem(&bytes, index), "asking for a device's memory"));
  info.memory_bytes = bytes;
  int lds = 0, bus = 0, slot = 0, domain = 0;
  const std::pair<hip::DeviceAttribute, int*> wanted[] = {{hip::DeviceAttribute::compute_units, &info.compute_units},
                                                          {hip::DeviceAttribute::lanes_per_wave, &info.lanes_per_wave},
                                                          {hip::DeviceAttribute::lds_bytes_per_block, &lds},
                                                          {hip::DeviceAttribute::pci_bus, &bus},
                                                          {hip::DeviceAttribute::pci_device, &slot},
                                                          {hip::DeviceAttribute::pci_domain, &domain}};
  for (const auto& [attribute, value] : wanted)
    TS_TRY(hip_status(library, library.device_get_attribute(value, attribute, index),
                      fmt::format("asking {} for attribute {}", info.name, static_cast<int>(attribute))));
  info.lds_bytes_per_block = lds;
  info.pci_bus = fmt::format("{:04x}:{:02x}:{:02x}.0", domain, bus, slot);
  return info;
}

}  // namespace

Result<std::vector<HipDeviceInfo>> hip_devices(const HipLibrary& library) {
  int count = 0;
  TS_TRY(hip_status(library, library.get_device_count(&count), "counting the AMD GPUs"));
  if (count == 0) {
    const auto visible = env("HIP_VISIBLE_DEVICES");
    return fail(ErrorCode::unsupported, "the HIP runtime sees no device",
                visible ? fmt::format("HIP_VISIBLE_DEVICES is '{}'", *visible) : "check rocminfo");
  }
  std::vector<HipDeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    TS_ASSIGN(HipDeviceInfo info, describe_hip(library, index));
    devices.push_back(std::move(info));
  }
  return devices;
}

const Result<std::vector<HipDeviceInfo>>& hip_devices() {
  if (hip_is_lost()) {
    static const auto* lost = new Result<std::vector<HipDeviceInfo>>(std::unexpected(hip_lost_error()));
    return *lost;
  }
  static const auto* devices = new Result<std::vector<HipDeviceInfo>>([]() -> Result<std::vector<HipDeviceInfo>> {
    TS_ASSIGN(const HipLibrary* library, hip_library());
    return hip_devices(*library);
  }());
  return *devices;
}

Result<HipDevice> HipDevice::open(const HipLibrary& library, int index) {
  TS_ASSIGN(std::vector<HipDeviceInfo> devices, hip_devices(library));
  if (index < 0 || index >= static_cast<int>(devices.size()))
    return fail(ErrorCode::invalid_argument, fmt::format("there is no AMD GPU {}", index),
                fmt::format("0 to {}", devices.size() - 1));
  return HipDevice(library, std::move(devices[static_cast<std::size_t>(index)]));
}

Status HipDevice::synchronize() const {
  const HipCurrent current(*this);
  TS_TRY(current.status());
  return hip_status(*library_, library_->device_synchronize(), "synchronising the device");
}

Result<HipMemoryInfo> HipDevice::memory() const {
  const HipCurrent current(*this);
  TS_TRY(current.status());
  HipMemoryInfo memory;
  TS_TRY(hip_status(*library_, library_->mem_get_info(&memory.free_bytes, &memory.total_bytes),
                    "asking for the device's free memory"));
  return memory;
}

}  // namespace tilesmith
