// Sources in, binaries out: looks each one up in the store and compiles what is missing with several workers. One
// failure is that source's alone; what another process is compiling is waited for (not for ever) instead of compiled
// twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/error.hpp"
#include "jit/store.hpp"
#include "jit/toolchain.hpp"

namespace tilesmith {

struct BuildProgress {
  std::size_t done = 0;
  std::size_t total = 0;
  std::size_t found = 0;  ///< of those done: already in the store
  std::size_t failed = 0;
};

struct BuildOptions {
  int workers = 0;  ///< 0: TILESMITH_WORKERS, else as many as processors and memory allow
  int batch = 1;    ///< sources handed to the compiler at once, where they agree in options
  CompileLimits limits{};
  std::chrono::milliseconds lock_wait{
      std::chrono::minutes(10)};  ///< for another process that compiles the same key; then it is compiled here too
  std::function<void(const BuildProgress&)> progress{};  ///< called after each source, by one thread at a time
};

/// Results in the order of the sources; equal sources are compiled once. After a stop request (limits.stop) the rest
/// are `cancelled`.
[[nodiscard]] std::vector<Result<Binary>> build(Store& store, const Toolchain& toolchain,
                                                std::span<const Source> sources, const BuildOptions& options = {});
[[nodiscard]] Result<Binary> build(Store& store, const Toolchain& toolchain, const Source& source,
                                   const BuildOptions& options = {});

}  // namespace tilesmith
