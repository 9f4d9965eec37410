// The kernels of a direct operation on a CUDA device, one for each set of data types, loaded when they are first called
// for. Finding one that is loaded takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "dispatch/cuda_registry.hpp"

namespace tilesmith {

template <std::size_t kCount>
class CudaServingKernels {
 public:
  CudaServingKernels(int device_index, CudaRegistry& registry) : device_index_(device_index), registry_(registry) {}

  /// Kernel number `at`; source() gives its Result<Source>. Errors: its own, and those of the registry.
  template <class MakeSource>
  [[nodiscard]] Result<const CudaKernel*> find(std::size_t at, MakeSource&& make_source) {
    if (const CudaKernel* const known = loaded_[at].load(std::memory_order_acquire)) return known;
    TS_ASSIGN(const Source source, make_source());
    TS_ASSIGN(const CudaContext* const context, CudaContext::of(device_index_));
    TS_ASSIGN(const CudaKernel kernel, registry_.find(*context, source, BuildPolicy::allowed));
    const std::lock_guard lock(mutex_);
    if (const CudaKernel* const known = loaded_[at].load()) return known;
    kept_.push_back(std::make_unique<const CudaKernel>(kernel));
    loaded_[at].store(kept_.back().get(), std::memory_order_release);
    return kept_.back().get();
  }

 private:
  int device_index_;
  CudaRegistry& registry_;
  std::array<std::atomic<const CudaKernel*>, kCount> loaded_{};
  std::mutex mutex_;  ///< of what follows
  std::vector<std::unique_ptr<const CudaKernel>> kept_;
};

}  // namespace tilesmith
