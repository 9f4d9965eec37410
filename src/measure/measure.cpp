#include "measure/measure.hpp"

#include <emmintrin.h>
#include <time.h>

#include <algorithm>
#include <cmath>

namespace tilesmith {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

}  // namespace

double Timing::median() const {
  return quantile(samples, 0.5);
}

double Timing::spread() const {
  return (quantile(samples, 0.75) - quantile(samples, 0.25)) / median();
}

void evict(const MemoryRange& range) {
  constexpr std::size_t kLine = 64;
  const char* at = static_cast<const char*>(range.data);
  for (std::size_t offset = 0; offset < range.bytes; offset += kLine) _mm_clflush(at + offset);
  if (range.bytes > 0) _mm_clflush(at + range.bytes - 1);
  _mm_mfence();
}

bool is_enough(const Timing& timing, double spent_seconds, const MeasureOptions& options) {
  const std::vector<double>& sorted = timing.samples;
  if (options.give_up_above > 0 && sorted.size() == 1 && sorted.front() > options.give_up_above) return true;
  if (static_cast<int>(sorted.size()) < options.min_samples) return false;
  if (spent_seconds < options.min_time.count()) return false;
  return spent_seconds > options.budget.count() || timing.spread() < options.target_spread;
}

double clock_seconds(bool processor_time) {
  timespec now{};
  clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Timing measure(FunctionRef<void()> call, std::span<const MemoryRange> touched, const MeasureOptions& options) {
  call();  // loads code, wakes threads, touches outputs
  Timing timing;
  std::vector<double>& sorted = timing.samples;
  double spent = 0;
  while (static_cast<int>(sorted.size()) < std::max(1, options.max_samples)) {
    if (options.cold)
      for (const MemoryRange& range : touched) evict(range);
    const double begin = clock_seconds(options.processor_time);
    call();
    const double seconds = clock_seconds(options.processor_time) - begin;
    spent += seconds;
    sorted.insert(std::ranges::upper_bound(sorted, seconds), seconds);
    if (is_enough(timing, spent, options)) break;
  }
  return timing;
}

}  // namespace tilesmith
