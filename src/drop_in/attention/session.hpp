// The attention functions' device, kernels, and what the last append left.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "drop_in/memory.hpp"
#include "drop_in/session.hpp"

namespace tilesmith::drop_in {

/// Bytes that no argument of the append returns.
struct Appended {
  std::vector<std::byte> q, k, v;
};

class AttentionSession {
 public:
  /// `arch` may name a device of ours ("cpu", "hip:1"); else chosen_device(). Errors: not_found where the device has no
  /// attention kernel, and those of the device.
  [[nodiscard]] static Result<std::shared_ptr<AttentionSession>> open(const char* arch);

  [[nodiscard]] Dispatcher& dispatcher() { return dispatcher_; }
  [[nodiscard]] Device device() const { return dispatcher_.device(); }
  [[nodiscard]] const KernelNames& kernels() const { return kernels_; }

  void keep(Appended appended);
  /// Null before the first append.
  [[nodiscard]] std::shared_ptr<const Appended> appended();

 private:
  explicit AttentionSession(Device device) : dispatcher_(DispatcherOptions{.device = device}) {}

  Dispatcher dispatcher_;
  KernelNames kernels_;
  std::mutex mutex_;
  std::shared_ptr<const Appended> appended_;
};

/// Error: not_found before fmha_dispatcher_initialize.
[[nodiscard]] Result<std::shared_ptr<AttentionSession>> attention_session();

/// Composable Kernel's library times so where it has more than one kernel.
inline constexpr Repeats kAttentionRepeats{.warm_up = 1, .timed = 3};

}  // namespace tilesmith::drop_in
