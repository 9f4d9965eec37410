// The CPU kernels that can run now, by their key. Kernels come linked into the library (the essential set), from the
// store, or freshly compiled into it; once loaded, a kernel stays.
#pragma once

#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "base/fork.hpp"
#include "dispatch/kernel_builder.hpp"
#include "runtime/cpu/kernel.hpp"
#include "runtime/cpu/machine.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

class CpuRegistry {
 public:
  explicit CpuRegistry(const CpuMachine& machine);

  /// The kernel of this instance: loaded, linked in, in the store, or (when `build` allows) compiled now. Thread-safe;
  /// two callers that need one new kernel compile it once.
  [[nodiscard]] Result<CpuKernel> find(const KernelConfig& config, BuildPolicy build);

  /// Which compiler makes kernels; empty where there is none.
  [[nodiscard]] std::string compiler() { return builder_.compiler(); }

  /// Compiles what is neither linked in nor in the store; see KernelBuilder.
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress);

  /// Configs of the linked-in kernels that this machine runs.
  [[nodiscard]] std::vector<KernelConfig> essential() const;

 private:
  const CpuMachine* machine_;
  KernelBuilder builder_;
  std::unordered_map<Key128, const TsCpuKernel*> linked_;
  std::mutex mutex_;
  std::unordered_map<Key128, CpuKernel> loaded_;
  AtFork at_fork_{this, [](void* object) {
                    auto* self = static_cast<CpuRegistry*>(object);
                    // Kernels stay loaded: finding one again gives the same.
                    if (renew(self->mutex_)) new (&self->loaded_) std::unordered_map<Key128, CpuKernel>;
                  }};
};

}  // namespace tilesmith
