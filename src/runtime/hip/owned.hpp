// Ownership of what the HIP runtime hands out: given back, with its device current, at the end of its life.
#pragma once

#include <memory>
#include <utility>

#include "runtime/hip/device.hpp"

namespace tilesmith {

/// `kRelease` is the library's function that takes the handle back: &HipLibrary::stream_destroy.
template <class Handle, auto kRelease>
class HipOwned {
 public:
  HipOwned() = default;
  HipOwned(const HipDevice& device, Handle handle)
      : device_(std::make_unique<const HipDevice>(device)), handle_(handle) {}
  HipOwned(HipOwned&& other) noexcept
      : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, Handle{})) {}
  HipOwned& operator=(HipOwned&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = std::move(other.device_);
    handle_ = std::exchange(other.handle_, Handle{});
    return *this;
  }
  ~HipOwned() { reset(); }

  /// Of an object that owns something.
  [[nodiscard]] const HipDevice& device() const { return *device_; }
  [[nodiscard]] Handle handle() const { return handle_; }

  void reset() {
    if (device_ == nullptr) return;
    // After a fork nothing of the library may be called. Errors of a lost device are not reported again.
    if (const HipCurrent current(*device_); current.status())
      static_cast<void>((device_->library().*kRelease)(handle_));
    device_.reset();
    handle_ = Handle{};
  }

 private:
  std::unique_ptr<const HipDevice> device_;  ///< null: nothing is owned
  Handle handle_{};
};

}  // namespace tilesmith
