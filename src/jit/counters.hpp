// What the process did to have its kernels: counted where a kernel is looked for, which a call with a plan never does.
#pragma once

#include <atomic>
#include <cstdint>

namespace tilesmith {

struct BuildCounters {
  std::atomic<std::uint64_t> hits{0};           ///< kernels found in the store
  std::atomic<std::uint64_t> misses{0};         ///< kernels that the store did not have
  std::atomic<std::uint64_t> builds{0};         ///< kernels compiled
  std::atomic<std::uint64_t> failed_builds{0};  ///< kernels that did not compile
  std::atomic<std::uint64_t> build_ns{0};       ///< nanoseconds that compilers ran, summed over workers
  std::atomic<std::uint64_t> fallbacks{0};      ///< plans made of another recipe than the best, which could not be had
};

/// The process's own.
[[nodiscard]] inline BuildCounters& build_counters() {
  static BuildCounters counters;
  return counters;
}

}  // namespace tilesmith
