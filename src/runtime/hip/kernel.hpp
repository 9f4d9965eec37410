// Code objects on an AMD GPU, and the launch of their kernels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "runtime/hip/device.hpp"

namespace tilesmith {

/// The processor that a code object was compiled for, from its note of metadata: "gfx942". Error: `load_failed` when it
/// is none.
[[nodiscard]] Result<std::string> code_object_arch(std::string_view bytes);

/// A kernel that can be launched. A small value; the code behind it stays for the life of the process.
class HipKernel {
 public:
  [[nodiscard]] const HipDevice& device() const { return device_; }
  [[nodiscard]] hip::Function function() const { return function_; }

  /// Blocks of so many threads and so much dynamic local memory that fit one compute unit.
  [[nodiscard]] Result<int> blocks_per_compute_unit(int threads, std::size_t dynamic_lds_bytes = 0) const;

 private:
  friend class HipModule;
  HipKernel(HipDevice device, hip::Function function) : device_(std::move(device)), function_(function) {}

  HipDevice device_;
  hip::Function function_;
};

/// A loaded code object.
class HipModule {
 public:
  /// Refuses code for another processor with both names. May be called while a stream is captured. The code stays
  /// loaded for the life of the process: plans hold pointers into it.
  [[nodiscard]] static Result<HipModule> load(const HipDevice& device, std::string_view code_object);

  /// A kernel by its symbol.
  [[nodiscard]] Result<HipKernel> kernel(const std::string& symbol) const;

 private:
  HipModule(HipDevice device, hip::Module handle) : device_(std::move(device)), handle_(handle) {}

  HipDevice device_;
  hip::Module handle_;
};

struct HipLaunch {
  unsigned blocks = 1;
  unsigned threads = 1;  ///< of a block
  unsigned dynamic_lds_bytes = 0;
  hip::Stream stream = nullptr;
};

/// Launches without allocating or locking. `parameters` holds the address of each of the kernel's parameters; they are
/// copied before this returns. An error names every number of the launch; faults inside the kernel come later, from
/// whoever synchronises.
[[nodiscard]] Status launch(const HipKernel& kernel, const HipLaunch& how, void* const* parameters);

}  // namespace tilesmith
