// Ownership of what the driver hands out: given back, with its context current, at the end of its life.
#pragma once

#include <utility>

#include "runtime/cuda/context.hpp"

namespace tilesmith {

/// `kRelease` is the driver's function that takes the handle back: &CudaDriver::stream_destroy.
template <class Handle, auto kRelease>
class CudaOwned {
 public:
  CudaOwned() = default;
  CudaOwned(const CudaContext& context, Handle handle) : context_(&context), handle_(handle) {}
  CudaOwned(CudaOwned&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)), handle_(std::exchange(other.handle_, Handle{})) {}
  CudaOwned& operator=(CudaOwned&& other) noexcept {
    if (this == &other) return *this;
    reset();
    context_ = std::exchange(other.context_, nullptr);
    handle_ = std::exchange(other.handle_, Handle{});
    return *this;
  }
  ~CudaOwned() { reset(); }

  /// Of an object that owns something.
  [[nodiscard]] const CudaContext& context() const { return *context_; }
  [[nodiscard]] Handle handle() const { return handle_; }

  void reset() {
    if (context_ == nullptr) return;
    const CudaCurrent current(*context_);
    // Errors of a lost context are not reported again: the call that lost it was.
    static_cast<void>((context_->driver().*kRelease)(handle_));
    context_ = nullptr;
    handle_ = Handle{};
  }

 private:
  const CudaContext* context_ = nullptr;
  Handle handle_{};
};

}  // namespace tilesmith
