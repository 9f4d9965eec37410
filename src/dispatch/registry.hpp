// The registry: every kernel that can run now, by its key. Kernels come linked into the library (the essential set), from the store, or
// freshly compiled into it; once found, a kernel stays.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kernel/config.hpp"
#include "runtime/cpu_kernel.hpp"
#include "runtime/cpu_machine.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class Registry {
 public:
  explicit Registry(const CpuMachine& machine) : machine_(&machine) {}

  /// The kernel of this instance: loaded, linked in, in the store, or (when `build` allows) compiled now. Thread-safe; two callers that need
  /// one new kernel compile it once.
  [[nodiscard]] Result<CpuKernel> find(const KernelConfig& config, BuildPolicy build);

  /// Configs of the linked-in kernels that this machine runs.
  [[nodiscard]] std::vector<KernelConfig> essential() const;

 private:
  [[nodiscard]] Result<CpuKernel> find_uncached(const KernelConfig& config, BuildPolicy build);

  const CpuMachine* machine_;
  std::mutex mutex_;
  std::map<Key128, Result<CpuKernel>> kernels_;
};

}  // namespace tilesmith
