// A device's primary context: every framework in the process shares it, so that Tilesmith takes their pointers and
// streams.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/driver.hpp"

namespace tilesmith {

struct CudaMemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

class CudaContext {
 public:
  /// The process's context of a device, retained by the first call and never released: kernels and plans point into it,
  /// and at exit the driver may be unloaded first. Errors: `invalid_argument` when there is no such device.
  [[nodiscard]] static Result<const CudaContext*> of(int device_index);
  /// One with its own driver and life, for tests.
  [[nodiscard]] static Result<std::unique_ptr<const CudaContext>> retain(const CudaDriver& driver, int device_index);

  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  [[nodiscard]] const CudaDeviceInfo& device() const { return device_; }
  [[nodiscard]] cu::Context handle() const { return handle_; }

  /// Waits for everything the device was given through this context.
  [[nodiscard]] Status synchronize() const;
  [[nodiscard]] Result<CudaMemoryInfo> memory() const;

 private:
  CudaContext(const CudaDriver& driver, CudaDeviceInfo device, cu::Device id, cu::Context handle)
      : driver_(driver), device_(std::move(device)), id_(id), handle_(handle) {}

  const CudaDriver& driver_;
  CudaDeviceInfo device_;
  cu::Device id_;
  cu::Context handle_;
};

/// Makes a context the calling thread's current one for a scope. Where it is current already, as under a framework, the
/// driver is asked once and nothing is changed.
class CudaCurrent {
 public:
  explicit CudaCurrent(const CudaContext& context) : driver_(context.driver()) {
    if (cuda_is_lost()) {
      code_ = cu::Code::not_initialized;
      return;
    }
    cu::Context now = nullptr;
    code_ = driver_.ctx_get_current(&now);
    if (code_ != cu::Code::success || now == context.handle()) return;
    code_ = driver_.ctx_push_current(context.handle());
    pushed_ = code_ == cu::Code::success;
  }
  ~CudaCurrent() {
    cu::Context popped = nullptr;
    if (pushed_) driver_.ctx_pop_current(&popped);
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

  [[nodiscard]] Status status() const {
    if (code_ == cu::Code::success) [[likely]]
      return {};
    if (cuda_is_lost()) return std::unexpected(cuda_lost_error());
    return std::unexpected(cuda_error(driver_, code_, "making the device's context current"));
  }

 private:
  const CudaDriver& driver_;
  cu::Code code_ = cu::Code::success;
  bool pushed_ = false;
};

}  // namespace tilesmith
