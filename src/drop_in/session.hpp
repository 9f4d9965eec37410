// What initialising a family of functions makes: the dispatcher of the device that calls run on, and the kernels there.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::drop_in {

/// The device that TILESMITH_CK_DEVICE names; else the first AMD GPU, or the CPU where there is none.
[[nodiscard]] Result<Device> chosen_device();

/// Names, each once, in the order in which they come.
class KernelNames {
 public:
  void add(const ChoiceInfo& choice);
  [[nodiscard]] const std::vector<std::string>& all() const { return names_; }

 private:
  std::vector<std::string> names_;
};

/// A family of functions, initialised or not: attention, GEMM or convolution. Calls go on while it is cleaned up.
template <class Family>
class Sessions {
 public:
  /// The process's, which lives for ever: kernels may run while the process ends.
  static Sessions& get() {
    static auto* sessions = new Sessions;
    return *sessions;
  }

  /// A family that is initialised already stays as it is.
  template <class Open>
  Status initialize(Open open) {
    const std::lock_guard lock(mutex_);
    if (session_) return {};
    TS_ASSIGN(session_, open());
    return {};
  }

  void clean_up() {
    std::shared_ptr<Family> last;
    const std::lock_guard lock(mutex_);
    last.swap(session_);
  }

  /// Null before initialize.
  [[nodiscard]] std::shared_ptr<Family> current() {
    const std::lock_guard lock(mutex_);
    return session_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Family> session_;
};

}  // namespace tilesmith::drop_in
