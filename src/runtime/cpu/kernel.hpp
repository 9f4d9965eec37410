// A CPU kernel in memory: the table of functions a generated shared object exports, checked before it is trusted.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "kernels/cpu/abi.h"

namespace tilesmith {

class CpuKernel {
 public:
  /// Loads `symbol` from the shared object and checks ABI version and key. The kernel stays loaded for the life of the
  /// process: plans hold pointers into it, and unloading code that another thread may be running cannot be made safe.
  [[nodiscard]] static Result<CpuKernel> load(const std::filesystem::path& shared_object, const std::string& symbol,
                                              const Key128& key);

  /// Wraps a table that is linked into the program.
  [[nodiscard]] static Result<CpuKernel> wrap(const TsCpuKernel* table, const Key128& key);

  [[nodiscard]] const TsCpuKernel& table() const { return *table_; }

 private:
  explicit CpuKernel(const TsCpuKernel* table) : table_(table) {}

  const TsCpuKernel* table_;
};

}  // namespace tilesmith
