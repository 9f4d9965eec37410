// The registry: every kernel that can run now, by its key. Kernels come linked into the library (the essential set),
// from the store, or freshly compiled into it; once loaded, a kernel stays.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "kernel/config.hpp"
#include "runtime/cpu_kernel.hpp"
#include "runtime/cpu_machine.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class Store;
class Toolchain;

class Registry {
 public:
  explicit Registry(const CpuMachine& machine);
  ~Registry();

  /// The kernel of this instance: loaded, linked in, in the store, or (when `build` allows) compiled now. Thread-safe;
  /// two callers that need one new kernel compile it once.
  [[nodiscard]] Result<CpuKernel> find(const KernelConfig& config, BuildPolicy build);

  /// Compiles what is neither linked in nor in the store, several at a time; one status per config, in order. Nothing
  /// is loaded.
  [[nodiscard]] std::vector<Status> build(
      std::span<const KernelConfig> configs, int workers,
      const std::function<void(std::size_t done, std::size_t total, std::size_t failed)>& progress);

  /// Configs of the linked-in kernels that this machine runs.
  [[nodiscard]] std::vector<KernelConfig> essential() const;

 private:
  [[nodiscard]] Result<CpuKernel> acquire(const KernelConfig& config, const Key128& key, BuildPolicy policy);
  /// Finds the compiler and opens the store, once.
  [[nodiscard]] Status open_toolchain();

  const CpuMachine* machine_;
  std::unordered_map<Key128, const TsCpuKernel*> linked_;
  std::mutex mutex_;
  std::unordered_map<Key128, CpuKernel> loaded_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Toolchain> toolchain_;
  std::optional<Error> no_toolchain_;
};

}  // namespace tilesmith
