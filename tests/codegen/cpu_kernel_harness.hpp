// Compiles a generated CPU source with the system's compiler, loads it and runs it: the least that tests and timings
// need.
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "codegen/cpu_attention.hpp"
#include "kernels/cpu/abi.h"

namespace tilesmith {

/// Whether this machine can run kernels of a level (for AMX: also whether the system grants the tiles).
[[nodiscard]] bool machine_has(CpuLevel level);

/// A loaded kernel; it stays loaded until the program ends.
[[nodiscard]] Result<const TsCpuKernel*> compile_kernel(const Source& source, const std::string& compiler = "g++",
                                                        double* seconds = nullptr);

/// Runs all stages on the calling thread with a workspace and a scratch that end where unreadable pages begin.
void run_kernel(const TsCpuKernel& kernel, const void* args);

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

}  // namespace tilesmith
