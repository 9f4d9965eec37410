// The device as a process sees it that measures nothing itself: it ranks and builds, and forks workers that run
// kernels. A process whose CUDA driver is awake cannot fork workers that use it, so a child asks the driver for the
// facts.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "dispatch/backend.hpp"
#include "measure/peaks.hpp"

namespace tilesmith {

struct PlanningBackend {
  std::unique_ptr<Backend> backend;  ///< never null
  int threads = 0;                   ///< of a call; 0 on a device of its own
  std::optional<Peaks> peaks{};      ///< those that need no measuring
  std::string device_name{};         ///< for people
  std::string driver{};              ///< its version; empty on the CPU
};

/// threads = 0: every processor. `limit` bounds the wait for the driver. Errors: not_found (no such device, no driver),
/// unsupported.
[[nodiscard]] Result<PlanningBackend> open_planning_backend(Device device, int threads,
                                                            std::chrono::milliseconds limit);

}  // namespace tilesmith
