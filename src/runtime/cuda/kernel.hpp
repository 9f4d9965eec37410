// Compiled CUDA code in a device's memory, and its launch.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "runtime/cuda/context.hpp"

namespace tilesmith {

/// The architecture a cubin was compiled for, from its ELF header: "sm_90a". Error: `load_failed` when it is no cubin.
[[nodiscard]] Result<std::string> cubin_arch(std::string_view cubin);
/// Whether code of `arch` runs on the device: the same major version and no newer minor one; with a suffix ("sm_90a")
/// the very same version, or family ("sm_100f") of versions. The error says so in both names.
[[nodiscard]] Status check_runs_on(std::string_view arch, const CudaDeviceInfo& device);

/// What the driver says about a loaded kernel.
struct CudaKernelProperties {
  int registers = 0;            ///< per thread
  int local_bytes = 0;          ///< per thread: stack and spills
  int static_shared_bytes = 0;  ///< per block
  int constant_bytes = 0;
  int threads_per_block = 0;  ///< the most a launch may have
};

/// A kernel that can be launched. A small value; the code behind it stays for the life of the process.
class CudaKernel {
 public:
  [[nodiscard]] const CudaContext& context() const { return *context_; }
  [[nodiscard]] cu::Function function() const { return function_; }
  [[nodiscard]] const CudaKernelProperties& facts() const { return facts_; }

  /// Blocks of so many threads and so much dynamic shared memory that fit one SM.
  [[nodiscard]] Result<int> blocks_per_sm(int threads, std::size_t dynamic_shared_bytes) const;

  /// Another kernel of the same cubin, as CudaModule::kernel gives it.
  [[nodiscard]] Result<CudaKernel> other(const std::string& symbol, std::size_t dynamic_shared_bytes) const;

 private:
  friend class CudaModule;
  CudaKernel(const CudaContext& context, cu::Module module, cu::Function function, const CudaKernelProperties& facts)
      : context_(&context), module_(module), function_(function), facts_(facts) {}

  const CudaContext* context_;
  cu::Module module_;
  cu::Function function_;
  CudaKernelProperties facts_;
};

/// Beyond this, all of an SM's memory is shared memory.
inline constexpr std::size_t kMuchSharedMemory = 48 << 10;

/// A loaded cubin.
class CudaModule {
 public:
  /// Loads a cubin; refuses one of another architecture with both names. May be called while a stream is captured. The
  /// code stays loaded for the life of the process: plans hold pointers into it, and unloading what another thread may
  /// be launching cannot be made safe.
  [[nodiscard]] static Result<CudaModule> load(const CudaContext& context, std::string_view cubin);

  /// A kernel by its symbol, ready to be launched with up to so much dynamic shared memory; if that is more than
  /// kMuchSharedMemory, with as much as a block may have.
  [[nodiscard]] Result<CudaKernel> kernel(const std::string& symbol, std::size_t dynamic_shared_bytes = 0) const;

 private:
  friend class CudaKernel;
  CudaModule(const CudaContext& context, cu::Module handle) : context_(&context), handle_(handle) {}

  const CudaContext* context_;
  cu::Module handle_;
};

struct CudaExtent {
  unsigned x = 1, y = 1, z = 1;

  friend bool operator==(const CudaExtent&, const CudaExtent&) = default;
};

/// How a kernel is launched.
struct CudaLaunch {
  CudaExtent grid{};     ///< in blocks
  CudaExtent block{};    ///< in threads
  CudaExtent cluster{};  ///< in blocks; {1, 1, 1}: none, or what the kernel was compiled with
  unsigned dynamic_shared_bytes = 0;
  /// The kernel may start before its predecessor in the stream has ended: it must wait for that one itself
  /// (griddepcontrol.wait) before it touches what that one writes. Programmatic dependent launch.
  bool overlaps_previous = false;
  cu::Stream stream = nullptr;
};

/// Launches without allocating or locking. `parameters` holds the address of each of the kernel's parameters; they are
/// copied before this returns. An error names every number of the launch; faults inside the kernel come later, from
/// whoever synchronises.
[[nodiscard]] Status launch(const CudaKernel& kernel, const CudaLaunch& how, void* const* parameters);

/// Launches with the kernel's parameters as they are: each argument must have the very type the kernel declares.
template <class... Parameters>
[[nodiscard]] Status launch_with(const CudaKernel& kernel, const CudaLaunch& how, const Parameters&... parameters) {
  void* const addresses[] = {const_cast<void*>(static_cast<const void*>(&parameters))..., nullptr};
  return launch(kernel, how, addresses);
}

/// Clusters of the launch's shape that the whole device holds at a time: 0 means that such a launch cannot run.
[[nodiscard]] Result<int> active_clusters(const CudaKernel& kernel, const CudaLaunch& how);

}  // namespace tilesmith
