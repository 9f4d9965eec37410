// The code objects loaded on one AMD GPU, by their config's key; once loaded, a kernel stays.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "dispatch/kernel_builder.hpp"
#include "runtime/hip/kernel.hpp"
#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

class HipRegistry {
 public:
  explicit HipRegistry(const HipSpec& spec) : builder_(hip_builder(spec)) {}

  /// The kernel of this instance: loaded, in the store, or (when `build` allows) compiled now. Thread-safe; two callers
  /// that need one new kernel compile it once.
  [[nodiscard]] Result<HipKernel> find(const HipDevice& device, const KernelConfig& config, BuildPolicy build);

  [[nodiscard]] std::string compiler() { return builder_->compiler(); }
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress) {
    return builder_->build(configs, workers, progress);
  }

 private:
  std::unique_ptr<KernelBuilder> builder_;
  std::mutex mutex_;
  std::unordered_map<Key128, HipKernel> loaded_;
};

}  // namespace tilesmith
