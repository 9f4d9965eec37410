// Timing a call: cold caches, several samples, the median with its spread.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/function_ref.hpp"

namespace tilesmith {

/// Memory a call reads or writes, evicted from every cache level before a cold sample.
struct MemoryRange {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

struct MeasureOptions {
  bool cold = true;             ///< evict the ranges before each sample
  bool processor_time = false;  ///< count the calling thread's processor time instead of wall time: for calls on one
                                ///< thread of a CPU that other programs use too
  int min_samples = 7;
  int max_samples = 101;
  std::chrono::duration<double> budget{0.5};  ///< stop once this much was spent and min_samples are there
  std::chrono::duration<double> min_time{0};  ///< do not stop before this much was spent
  double target_spread = 0.01;                ///< stop as well once the interquartile range is this share of the median
  double give_up_above = 0;  ///< seconds; stop after a first sample that is longer: this candidate cannot win. 0: never
};

/// Seconds of each sample, the shortest first.
struct Timing {
  std::vector<double> samples;  ///< sorted
  [[nodiscard]] double median() const;
  [[nodiscard]] double best() const { return samples.front(); }
  /// Interquartile range over median.
  [[nodiscard]] double spread() const;
};

/// Whether these samples are enough.
[[nodiscard]] bool is_enough(const Timing& timing, double spent_seconds, const MeasureOptions& options);

/// Seconds of the wall's clock, or of the calling thread's processor time.
[[nodiscard]] double clock_seconds(bool processor_time);

/// Runs `call` once untimed, then times it. There is at least one sample.
[[nodiscard]] Timing measure(FunctionRef<void()> call, std::span<const MemoryRange> touched,
                             const MeasureOptions& options);

/// Writes back and evicts every cache line of the range.
void evict(const MemoryRange& range);

}  // namespace tilesmith
