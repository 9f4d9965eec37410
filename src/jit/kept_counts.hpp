// What all processes together did to have their kernels: the sum of their counters (jit/counters.hpp), kept in the
// store they used, in the file `v1/counts`. A process adds to it after it compiled, at most once a minute while it only
// finds kernels, and when it ends; one that is killed takes with it what it had not added. A file that is damaged, or
// that cannot be written, never fails a call: counting begins anew, or is left to the next time.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.hpp"

namespace tilesmith {

struct BuildCounts {
  std::uint64_t hits = 0;  ///< these as in BuildCounters
  std::uint64_t misses = 0;
  std::uint64_t builds = 0;
  std::uint64_t failed_builds = 0;
  std::uint64_t fallbacks = 0;
  std::uint64_t build_ns = 0;
  std::int64_t since = 0;  ///< when counting began, in seconds since 1970; 0: nothing is counted yet
};

/// What is counted in the store in `root`. Errors: corrupt; io.
[[nodiscard]] Result<BuildCounts> read_counts(const std::filesystem::path& root);

/// Adds to what is counted there, beside any number of processes that do the same. Damaged counts begin anew. Errors:
/// busy, when others held the file all the time; io.
[[nodiscard]] Status add_counts(const std::filesystem::path& root, const BuildCounts& more);

enum class KeepCounts : std::uint8_t { now, seldom };
/// Adds what this process counted and has not added yet to the store in `root`, which it names for the end of the
/// process too. `seldom`: only when the last time is a minute ago. Thread-safe; no failure shows.
void keep_counts(const std::filesystem::path& root, KeepCounts when);

}  // namespace tilesmith
