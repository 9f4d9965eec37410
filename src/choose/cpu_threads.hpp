// How many threads a call on the CPU is worth.
#pragma once

#include <algorithm>

#include "spec/cpu/facts.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// What a call pays for being shared, in seconds, by two threads or sixteen (docs/log/2026-11-cpu-kernels.md).
inline constexpr double kSharingSeconds = 20e-6;

/// All of `most` threads for a call that would take one of them `seconds_alone`, or one where sharing gains nothing.
[[nodiscard]] inline int threads_worth(double seconds_alone, int most) {
  return seconds_alone * (1 - 1.0 / std::max(most, 1)) > kSharingSeconds ? most : 1;
}

/// The threads that a kernel of a level gets for a problem, of `most`. The model is the operation's predicted_seconds.
template <class Problem>
[[nodiscard]] int threads_worth(const Problem& problem, const KernelConfig& config, const CpuSpec& spec, int most) {
  return most <= 1 ? 1 : threads_worth(predicted_seconds(problem, config, spec, 1), most);
}

/// The predicted seconds of a call on the threads that it gets, and of sharing it: of two kernels, the one that is
/// faster alone is so with threads.
template <class Problem>
[[nodiscard]] double seconds_of_call(const Problem& problem, const KernelConfig& config, const CpuSpec& spec,
                                     int most) {
  const int threads = threads_worth(problem, config, spec, most);
  return predicted_seconds(problem, config, spec, threads) + (threads > 1 ? kSharingSeconds : 0);
}

}  // namespace tilesmith
