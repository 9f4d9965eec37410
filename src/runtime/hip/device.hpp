// The AMD GPUs of this machine, as the HIP runtime describes them, and one of them as the calling thread's device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runtime/hip/library.hpp"

namespace tilesmith {

struct HipDeviceInfo {
  int index = 0;        ///< among the devices this process may see (HIP_VISIBLE_DEVICES)
  std::string name;     ///< "AMD Instinct MI300X"
  std::string arch;     ///< "gfx942"
  std::string pci_bus;  ///< "0000:1b:00.0"
  int compute_units = 0;
  int lanes_per_wave = 0;
  std::int64_t lds_bytes_per_block = 0;
  std::uint64_t memory_bytes = 0;
  int runtime_version = 0;  ///< 60'232'830 is HIP 6.2.32830
};

struct HipMemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

/// Every device this process may see, in the runtime's order. Never empty: no device is an `unsupported` error.
[[nodiscard]] Result<std::vector<HipDeviceInfo>> hip_devices(const HipLibrary& library);
/// Of the process's library; asked once, the answer is kept.
[[nodiscard]] const Result<std::vector<HipDeviceInfo>>& hip_devices();

/// A device that kernels are loaded on. HIP's context of a device is the process's: every framework shares it.
class HipDevice {
 public:
  /// Errors: `invalid_argument` when there is no such device.
  [[nodiscard]] static Result<HipDevice> open(const HipLibrary& library, int index);

  [[nodiscard]] const HipLibrary& library() const { return *library_; }
  [[nodiscard]] const HipDeviceInfo& info() const { return *info_; }

  /// Waits for everything the device was given by this process.
  [[nodiscard]] Status synchronize() const;
  [[nodiscard]] Result<HipMemoryInfo> memory() const;

 private:
  HipDevice(const HipLibrary& library, HipDeviceInfo info)
      : library_(&library), info_(std::make_shared<const HipDeviceInfo>(std::move(info))) {}

  const HipLibrary* library_;
  std::shared_ptr<const HipDeviceInfo> info_;
};

/// Makes a device the calling thread's for a scope, and the one before it afterwards.
class HipCurrent {
 public:
  explicit HipCurrent(const HipDevice& device) : library_(device.library()) {
    if (hip_is_lost()) {
      code_ = hip::Code::not_initialized;
      return;
    }
    code_ = library_.get_device(&before_);
    if (code_ != hip::Code::success || before_ == device.info().index) return;
    code_ = library_.set_device(device.info().index);
    changed_ = code_ == hip::Code::success;
  }
  ~HipCurrent() {
    if (changed_) static_cast<void>(library_.set_device(before_));
  }
  HipCurrent(const HipCurrent&) = delete;
  HipCurrent& operator=(const HipCurrent&) = delete;

  [[nodiscard]] Status status() const {
    if (code_ == hip::Code::success) [[likely]]
      return {};
    if (hip_is_lost()) return std::unexpected(hip_lost_error());
    return std::unexpected(hip_error(library_, code_, "making the device the thread's"));
  }

 private:
  const HipLibrary& library_;
  hip::Code code_ = hip::Code::success;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace tilesmith
