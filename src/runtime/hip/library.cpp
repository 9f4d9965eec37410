#include "runtime/hip/library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <atomic>
#include <cstdint>

#include "base/env.hpp"
#include "base/fork.hpp"

namespace tilesmith {
namespace {

using HipCode = hip::Code;

ErrorCode hip_error_code_of(HipCode code) {
  switch (code) {
    case HipCode::out_of_memory:
      return ErrorCode::out_of_memory;
    case HipCode::invalid_value:
    case HipCode::invalid_device:
    case HipCode::invalid_context:
    case HipCode::invalid_handle:
      return ErrorCode::invalid_argument;
    case HipCode::insufficient_driver:
    case HipCode::no_device:
    case HipCode::not_supported:
      return ErrorCode::unsupported;
    case HipCode::invalid_image:
    case HipCode::no_binary_for_gpu:
    case HipCode::invalid_kernel_file:
    case HipCode::symbol_not_found:
    case HipCode::shared_object_failed:
      return ErrorCode::load_failed;
    case HipCode::not_found:
      return ErrorCode::not_found;
    case HipCode::not_ready:
      return ErrorCode::busy;
    case HipCode::launch_timeout:
      return ErrorCode::timeout;
    default:
      break;
  }
  if (code >= HipCode::illegal_address && code <= HipCode::launch_failure) return ErrorCode::launch_failed;
  if (code >= HipCode::capture_unsupported && code <= HipCode::capture_wrong_thread) return ErrorCode::launch_failed;
  return ErrorCode::internal;
}

std::string_view hip_hint_of(HipCode code) {
  switch (code) {
    case HipCode::no_device:
      return "check rocminfo, the groups video and render, and HIP_VISIBLE_DEVICES if it is set";
    case HipCode::insufficient_driver:
      return "install the amdgpu kernel module of the same ROCm release";
    case HipCode::no_binary_for_gpu:
    case HipCode::invalid_image:
      return "the code is damaged, or for another processor";
    case HipCode::illegal_address:
    case HipCode::launch_failure:
      return "this process can no longer use the device";
    default:
      return {};
  }
}

template <class Function>
bool find_in_hip(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

enum class HipOpened : std::uint8_t { not_yet, in_vain, perhaps };
constinit std::atomic<HipOpened> hip_opened_here{HipOpened::not_yet};
constinit std::atomic<bool> hip_lost{false};
const AtFork& hip_at_fork = *new const AtFork(nullptr, [](void*) {
  if (hip_opened_here.load() == HipOpened::perhaps) hip_lost = true;
});

}  // namespace

Error hip_error(const HipLibrary& library, HipCode code, std::string_view doing) {
  const char* name = library.get_error_name(code);
  const char* text = library.get_error_string(code);
  return {hip_error_code_of(code),
          fmt::format("{} ({}) while {}",
                      name != nullptr ? std::string(name) : fmt::format("HIP error {}", static_cast<int>(code)),
                      text != nullptr ? text : "which this library does not explain", doing),
          std::string(hip_hint_of(code))};
}

std::string hip_version_name(int version) {
  return fmt::format("{}.{}", version / 10'000'000, version / 100'000 % 100);
}

std::string HipLibrary::version_text() const {
  return hip_version_name(version_);
}

Result<std::unique_ptr<const HipLibrary>> HipLibrary::open(const std::string& path) {
  // Never closed: the runtime starts threads and registers handlers for exit.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::not_found, fmt::format("no HIP runtime: {}", ::dlerror()),
                "install ROCm 6 or newer, which brings libamdhip64.so, or name that file in TILESMITH_LIBAMDHIP64");
  std::unique_ptr<HipLibrary> library(new HipLibrary);
  // The version first: what an old library lacks is then told as such, not as a missing symbol.
  if (!find_in_hip(handle, "hipRuntimeGetVersion", library->runtime_get_version) ||
      library->runtime_get_version(&library->version_) != HipCode::success)
    return fail(ErrorCode::unsupported, fmt::format("{} does not tell a HIP runtime's version", path),
                "the libamdhip64.so of ROCm 6 or newer, in the loader's path or in TILESMITH_LIBAMDHIP64");
  if (library->version_ < kOldestVersion)
    return fail(ErrorCode::unsupported,
                fmt::format("the HIP runtime is {}, and {} is the oldest that works", library->version_text(),
                            hip_version_name(kOldestVersion)),
                "install ROCm 6 or newer");
  const char* missing = nullptr;
#define TILESMITH_FIND(name, symbol, ...) \
  if (!find_in_hip(handle, symbol, library->name) && missing == nullptr) missing = symbol;
  TILESMITH_HIP_FUNCTIONS(TILESMITH_FIND)
#undef TILESMITH_FIND
  if (!find_in_hip(handle, "hipGetErrorName", library->get_error_name)) missing = "hipGetErrorName";
  if (!find_in_hip(handle, "hipGetErrorString", library->get_error_string)) missing = "hipGetErrorString";
  if (missing != nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("the HIP runtime {} ({}) lacks {}", path, library->version_text(), missing),
                "install a complete ROCm 6 or newer");
  TS_TRY(hip_status(*library, library->init(0), "initialising the HIP runtime"));
  return std::unique_ptr<const HipLibrary>(std::move(library));
}

bool hip_is_lost() {
  return hip_lost.load(std::memory_order_relaxed);
}

Error hip_lost_error() {
  return {ErrorCode::unsupported, "this process was forked from one that used HIP, which does not survive a fork",
          "start processes by spawn or forkserver, or fork before the first use of HIP"};
}

Result<const HipLibrary*> hip_library() {
  if (hip_is_lost()) return std::unexpected(hip_lost_error());
  static const auto* opened = [] {
    hip_opened_here = HipOpened::perhaps;  // before it is: a child forked in between must not go on with half of it
    auto* result = new Result<std::unique_ptr<const HipLibrary>>([]() -> Result<std::unique_ptr<const HipLibrary>> {
      if (const auto named = env("TILESMITH_LIBAMDHIP64")) return HipLibrary::open(*named);
      // Installations for running alone have no name without a number.
      auto library = HipLibrary::open("libamdhip64.so");
      for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6"})
        if (!library && library.error().code == ErrorCode::not_found)
          if (auto numbered = HipLibrary::open(name); numbered || numbered.error().code != ErrorCode::not_found)
            library = std::move(numbered);
      return library;
    }());
    if (!*result) hip_opened_here = HipOpened::in_vain;
    return result;
  }();
  if (!*opened) return std::unexpected(opened->error());
  return (*opened)->get();
}

}  // namespace tilesmith
