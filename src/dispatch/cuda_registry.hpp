// The CUDA kernels loaded on one device, by their key; once loaded, a kernel stays.
#pragma once

#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "dispatch/kernel_builder.hpp"
#include "runtime/cuda/kernel.hpp"
#include "spec/cuda/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

class CudaRegistry {
 public:
  explicit CudaRegistry(const CudaSpec& spec);

  /// The kernel of this instance, ready to be launched with so much dynamic shared memory: loaded, in the store, or
  /// (when `build` allows) compiled now. Thread-safe; two callers that need one new kernel compile it once.
  [[nodiscard]] Result<CudaKernel> find(const CudaContext& context, const KernelConfig& config,
                                        std::size_t dynamic_shared_bytes, BuildPolicy build);

  /// The same of a kernel that belongs to no config. Its name is its own on this device.
  [[nodiscard]] Result<CudaKernel> find(const CudaContext& context, const Source& source, BuildPolicy build);

  [[nodiscard]] std::string compiler() { return builder_->compiler(); }

  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress) {
    return builder_->build(configs, workers, progress);
  }

 private:
  std::unique_ptr<KernelBuilder> builder_;
  std::mutex mutex_;
  std::unordered_map<Key128, CudaKernel> loaded_;
  std::unordered_map<std::string, CudaKernel> loaded_by_name_;
};

}  // namespace tilesmith
