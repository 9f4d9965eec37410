#include "runtime/cuda/device.hpp"

#include <fmt/core.h>

#include <array>
#include <cstring>

#include "base/env.hpp"

namespace tilesmith {
namespace {

using Attribute = cu::DeviceAttribute;

std::string uuid_text(const cu::Uuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

Result<CudaDeviceInfo> describe(const CudaDriver& driver, int index) {
  const std::string doing = fmt::format("asking about CUDA device {}", index);
  CudaDeviceInfo info;
  info.index = index;
  info.driver_version = driver.version();
  cu::Device device = 0;
  TS_TRY(cuda_status(driver, driver.device_get(&device, index), doing));
  std::array<char, 256> name{};
  TS_TRY(cuda_status(driver, driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device), doing));
  info.name = name.data();
  cu::Uuid uuid{};
  TS_TRY(cuda_status(driver, driver.device_get_uuid(&uuid, device), doing));
  info.uuid = uuid_text(uuid);
  std::size_t memory = 0;
  TS_TRY(cuda_status(driver, driver.device_total_mem(&memory, device), doing));
  info.memory_bytes = memory;

  int l2 = 0, memory_clock_khz = 0, bus_bits = 0, domain = 0, bus = 0, slot = 0, clusters = 0;
  struct Wanted {
    Attribute attribute;
    int* value;
    bool optional;  // newer drivers may stop telling clocks, older ones do not know clusters
  };
  const Wanted wanted[] = {{Attribute::compute_major, &info.compute_major, false},
                           {Attribute::compute_minor, &info.compute_minor, false},
                           {Attribute::sm_count, &info.sm_count, false},
                           {Attribute::warp_size, &info.warp_size, false},
                           {Attribute::threads_per_sm, &info.threads_per_sm, false},
                           {Attribute::blocks_per_sm, &info.blocks_per_sm, false},
                           {Attribute::shared_bytes_per_block_optin, &info.shared_bytes_per_block, false},
                           {Attribute::shared_bytes_per_sm, &info.shared_bytes_per_sm, false},
                           {Attribute::reserved_shared_bytes_per_block, &info.reserved_bytes_per_block, false},
                           {Attribute::registers_per_block, &info.registers_per_block, false},
                           {Attribute::registers_per_sm, &info.registers_per_sm, false},
                           {Attribute::l2_bytes, &l2, false},
                           {Attribute::pci_domain, &domain, true},
                           {Attribute::pci_bus, &bus, true},
                           {Attribute::pci_device, &slot, true},
                           {Attribute::clock_khz, &info.clock_khz, true},
                           {Attribute::memory_clock_khz, &memory_clock_khz, true},
                           {Attribute::memory_bus_bits, &bus_bits, true},
                           {Attribute::cluster_launch, &clusters, true}};
  for (const Wanted& each : wanted) {
    const cu::Code code = driver.device_get_attribute(each.value, each.attribute, device);
    if (code == cu::Code::success) continue;
    if (!each.optional) return std::unexpected(cuda_error(driver, code, doing));
    *each.value = 0;
  }
  info.l2_bytes = l2;
  info.clusters = clusters != 0;
  info.pci_bus = fmt::format("{:04x}:{:02x}:{:02x}.0", domain, bus, slot);
  info.memory_bytes_per_second = 2.0 * 1000.0 * memory_clock_khz * (bus_bits / 8.0);
  return info;
}

}  // namespace

std::string CudaDeviceInfo::arch() const {
  return fmt::format("sm_{}{}{}", compute_major, compute_minor, compute_major >= 9 ? "a" : "");
}

Result<std::vector<CudaDeviceInfo>> cuda_devices(const CudaDriver& driver) {
  int count = 0;
  TS_TRY(cuda_status(driver, driver.device_get_count(&count), "counting the CUDA devices"));
  if (count == 0) {
    const auto visible = env("CUDA_VISIBLE_DEVICES");
    return fail(ErrorCode::unsupported, "the CUDA driver sees no device",
                visible ? fmt::format("CUDA_VISIBLE_DEVICES is '{}'", *visible) : "check nvidia-smi");
  }
  std::vector<CudaDeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    TS_ASSIGN(CudaDeviceInfo info, describe(driver, index));
    devices.push_back(std::move(info));
  }
  return devices;
}

const Result<std::vector<CudaDeviceInfo>>& cuda_devices() {
  if (cuda_is_lost()) {
    static const auto* lost = new Result<std::vector<CudaDeviceInfo>>(std::unexpected(cuda_lost_error()));
    return *lost;
  }
  static const auto* devices = new Result<std::vector<CudaDeviceInfo>>([]() -> Result<std::vector<CudaDeviceInfo>> {
    TS_ASSIGN(const CudaDriver* driver, cuda_driver());
    return cuda_devices(*driver);
  }());
  return *devices;
}

}  // namespace tilesmith
