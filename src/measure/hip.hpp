// Timing work on an AMD GPU: by events in its stream, with cold caches.
#pragma once

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "measure/measure.hpp"
#include "runtime/hip/memory.hpp"
#include "runtime/hip/stream.hpp"

namespace tilesmith {

class HipTimer {
 public:
  /// Allocates the memory that evicts the caches.
  [[nodiscard]] static Result<HipTimer> create(const HipDevice& device);

  /// Runs `enqueue` once untimed, then times it: with options.cold, kEvictionBytes are overwritten before each sample.
  [[nodiscard]] Result<Timing> measure(hip::Stream stream, FunctionRef<Status()> enqueue,
                                       const MeasureOptions& options) const;

  /// Twice the largest last-level cache, MI300X's of 256 MiB (AMD CDNA 3 white paper).
  static constexpr std::size_t kEvictionBytes = std::size_t{512} << 20;

 private:
  HipTimer(const HipDevice& device, HipBuffer eviction, HipEvent begin, HipEvent end)
      : device_(device), eviction_(std::move(eviction)), begin_(std::move(begin)), end_(std::move(end)) {}

  HipDevice device_;
  HipBuffer eviction_;
  HipEvent begin_, end_;
};

}  // namespace tilesmith
