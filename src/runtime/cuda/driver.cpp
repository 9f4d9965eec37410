#include "runtime/cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <atomic>
#include <cstdint>

#include "base/env.hpp"
#include "base/fork.hpp"

namespace tilesmith {
namespace {

using Code = cu::Code;

std::string version_name(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

ErrorCode error_code_of(Code code) {
  switch (code) {
    case Code::out_of_memory:
      return ErrorCode::out_of_memory;
    case Code::invalid_value:
    case Code::invalid_device:
    case Code::invalid_context:
    case Code::invalid_handle:
    case Code::invalid_cluster_size:
      return ErrorCode::invalid_argument;
    case Code::stub_library:
    case Code::newer_driver_needed:
    case Code::device_unavailable:
    case Code::no_device:
    case Code::unsupported_ptx_version:
    case Code::not_supported:
    case Code::system_not_ready:
    case Code::system_driver_mismatch:
    case Code::compat_not_supported:
      return ErrorCode::unsupported;
    case Code::invalid_image:
    case Code::no_binary_for_gpu:
    case Code::invalid_ptx:
    case Code::invalid_source:
    case Code::symbol_not_found:
    case Code::shared_object_failed:
      return ErrorCode::load_failed;
    case Code::not_found:
      return ErrorCode::not_found;
    case Code::not_ready:
      return ErrorCode::busy;
    case Code::launch_timeout:
    case Code::timeout:
      return ErrorCode::timeout;
    default:
      break;
  }
  if (code >= Code::illegal_address && code <= Code::tensor_memory_leak) return ErrorCode::launch_failed;
  if (code >= Code::capture_unsupported && code <= Code::capture_wrong_thread) return ErrorCode::launch_failed;
  return ErrorCode::internal;
}

std::string_view hint_of(Code code) {
  switch (code) {
    case Code::not_initialized:
      return "a process that was forked after CUDA was initialised cannot use it: fork before the first CUDA call";
    case Code::no_device:
      return "check nvidia-smi, and CUDA_VISIBLE_DEVICES if it is set";
    case Code::stub_library:
      return "this is the library for linking, not the driver: install the NVIDIA driver, or correct LD_LIBRARY_PATH";
    case Code::system_driver_mismatch:
      return "libcuda.so.1 and the kernel module are of different versions: reboot, or reload the module";
    case Code::system_not_ready:
      return "start nvidia-fabricmanager on machines with NVSwitch";
    case Code::no_binary_for_gpu:
    case Code::invalid_image:
      return "the code is damaged, for another architecture, or from a CUDA release newer than the driver's";
    case Code::uncorrectable_ecc:
      return "the device's memory is damaged: see nvidia-smi -q";
    default:
      break;
  }
  // These leave the context unusable: every later call in the process repeats them.
  if (code == Code::illegal_address || (code >= Code::context_is_destroyed && code <= Code::tensor_memory_leak))
    return "this process can no longer use the device; compute-sanitizer tells which access it was";
  return {};
}

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

Error cuda_error(const CudaDriver& driver, Code code, std::string_view doing) {
  const char* name = nullptr;
  const char* text = nullptr;
  const bool named = driver.get_error_name(code, &name) == Code::success && name != nullptr;
  const bool told = driver.get_error_string(code, &text) == Code::success && text != nullptr;
  return {
      error_code_of(code),
      fmt::format("{} ({}) while {}", named ? std::string(name) : fmt::format("CUDA error {}", static_cast<int>(code)),
                  told ? text : "which this driver does not explain", doing),
      std::string(hint_of(code))};
}

std::string CudaDriver::version_text() const {
  return version_name(version_);
}

Result<std::unique_ptr<const CudaDriver>> CudaDriver::open(const std::string& library) {
  // Never closed: the driver starts threads and registers handlers for exit.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::not_found, fmt::format("no CUDA driver: {}", ::dlerror()),
                "install the NVIDIA driver, which brings libcuda.so.1, or name that file in TILESMITH_LIBCUDA");
  std::unique_ptr<CudaDriver> driver(new CudaDriver);

  // The version first: what an old driver lacks is then told as such, not as a missing symbol.
  if (!find(handle, "cuDriverGetVersion", driver->driver_get_version) ||
      driver->driver_get_version(&driver->version_) != Code::success)
    return fail(ErrorCode::unsupported, fmt::format("{} does not tell a CUDA driver's version", library));
  if (driver->version_ < kOldestVersion)
    return fail(ErrorCode::unsupported,
                fmt::format("the CUDA driver is for CUDA {}, and {} is the oldest that works",
                            version_name(driver->version_), version_name(kOldestVersion)),
                "install NVIDIA driver 525.60 or newer");
  const char* missing = nullptr;
#define TILESMITH_FIND(name, symbol, ...) \
  if (!find(handle, symbol, driver->name) && missing == nullptr) missing = symbol;
  TILESMITH_CUDA_FUNCTIONS(TILESMITH_FIND)
#undef TILESMITH_FIND
  if (missing != nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("the CUDA driver {} (CUDA {}) lacks {}", library, version_name(driver->version_), missing),
                "install a complete NVIDIA driver, 525.60 or newer");
  TS_TRY(cuda_status(*driver, driver->init(0), "initialising the CUDA driver"));
  return std::unique_ptr<const CudaDriver>(std::move(driver));
}

namespace {

enum class Opened : std::uint8_t { not_yet, in_vain, perhaps };
constinit std::atomic<Opened> opened_here{Opened::not_yet};
constinit std::atomic<bool> lost{false};
const AtFork& at_fork = *new const AtFork(nullptr, [](void*) {
  if (opened_here.load() == Opened::perhaps) lost = true;
});

}  // namespace

bool cuda_is_lost() {
  return lost.load(std::memory_order_relaxed);
}

Error cuda_lost_error() {
  return {ErrorCode::unsupported, "this process was forked from one that used CUDA, which does not survive a fork",
          "start processes by spawn or forkserver, or fork before the first use of CUDA"};
}

Result<const CudaDriver*> cuda_driver() {
  if (cuda_is_lost()) return std::unexpected(cuda_lost_error());
  static const auto* opened = [] {
    opened_here = Opened::perhaps;  // before it is: a child forked in between must not go on with half of it
    auto* result = new Result<std::unique_ptr<const CudaDriver>>(
        CudaDriver::open(env("TILESMITH_LIBCUDA").value_or("libcuda.so.1")));
    if (!*result) opened_here = Opened::in_vain;
    return result;
  }();
  if (!*opened) return std::unexpected(opened->error());
  return (*opened)->get();
}

}  // namespace tilesmith
