// Compiles a generated CPU source, loads it and runs it without a dispatcher: the least that tests and timings need.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "codegen/cpu_source.hpp"
#include "kernels/cpu/abi.h"

namespace tilesmith {

/// Whether this machine can run kernels of a level (for AMX: also whether the system grants the tiles).
[[nodiscard]] bool machine_has(CpuLevel level);

/// A loaded kernel, compiled with warnings as errors unless the store has it; it stays loaded until the program ends.
[[nodiscard]] Result<const TsCpuKernel*> compile_kernel(Source source, const std::filesystem::path& store_directory);

/// Memory of exactly `bytes`, the last of them before an unreadable page; filled with bytes that read as NaN in every
/// type.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes, std::size_t alignment = 1);
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes();
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* mapping_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;
};

/// Runs all stages on the calling thread with a scratch that ends where unreadable pages begin.
void run_stages(const TsCpuKernel& kernel, const void* args);

/// The same with a workspace of that kind.
template <class Args>
void run_kernel(const TsCpuKernel& kernel, const Args* args) {
  const GuardedBytes workspace(static_cast<std::size_t>(kernel.workspace_bytes(args)), 64);
  Args copy = *args;
  copy.workspace = workspace.data();
  run_stages(kernel, &copy);
}

}  // namespace tilesmith
