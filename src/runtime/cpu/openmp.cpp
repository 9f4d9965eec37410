#include "runtime/cpu/openmp.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork.hpp"

namespace tilesmith {
namespace {

/// One for the process, as the runtime is.
struct Found {
  std::atomic<const OpenMp*> runtime{nullptr};
  std::atomic<bool> forked{false};
  AtFork at_fork{this, [](void* found) {
                   static_cast<Found*>(found)->runtime = nullptr;
                   static_cast<Found*>(found)->forked = true;
                 }};

  static Found& instance() {
    static auto* found = new Found;  // never destroyed: pools may run while a program ends
    return *found;
  }
};

// From the start of the program on, so that no fork is missed.
[[maybe_unused]] const Found& watching = Found::instance();

bool is_openmp(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libgomp") || name.starts_with("libiomp") || name.starts_with("libomp");
}

/// A function of the loaded library, kept loaded from then on.
template <class Function>
bool find_in(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const OpenMp* OpenMp::found() {
  return Found::instance().runtime.load(std::memory_order_acquire);
}

void OpenMp::look() {
  Found& found = Found::instance();
  if (found.forked || found.runtime.load(std::memory_order_acquire) != nullptr) return;
  if (const OpenMp* runtime = look_among_loaded()) found.runtime.store(runtime, std::memory_order_release);
}

const OpenMp* OpenMp::look_among_loaded() {
  std::vector<std::string> paths;  // opened behind the walk, which holds a lock of the loader's
  const auto visit = [](dl_phdr_info* library, std::size_t, void* result) {
    if (is_openmp(library->dlpi_name)) static_cast<std::vector<std::string>*>(result)->emplace_back(library->dlpi_name);
    return 0;
  };
  ::dl_iterate_phdr(visit, &paths);
  for (const std::string& path : paths) {
    void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    OpenMp runtime;
    if (find_in(library, "GOMP_parallel", runtime.parallel_) &&
        find_in(library, "omp_get_max_threads", runtime.max_threads_) &&
        find_in(library, "omp_get_thread_num", runtime.thread_num_))
      return new OpenMp(runtime);
    ::dlclose(library);
  }
  return nullptr;
}

}  // namespace tilesmith
