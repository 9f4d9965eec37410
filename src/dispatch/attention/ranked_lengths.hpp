// Rankings of sequences that grow: on tensors, each key more makes a problem of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "choose/candidate.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// The problems that a ranking holds for: those whose keys end in the same block.
[[nodiscard]] inline AttentionProblem at_end_of_block(AttentionProblem problem) {
  constexpr std::int64_t kBlock = 64;  // of keys, which the tiles of a table have whole numbers of, or nearly
  problem.seqlen_k = (problem.seqlen_k + kBlock - 1) / kBlock * kBlock;
  return problem;
}

/// The last few rankings, by their problems. Thread-safe.
class RankedLengths {
 public:
  /// That of the problem, or else rank(problem)'s, which is kept when it is no error.
  template <class Rank>
  [[nodiscard]] Result<Ranking> of(const AttentionProblem& problem, Rank rank) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = std::ranges::find(kept_, problem, &std::pair<AttentionProblem, Ranking>::first);
      if (known != kept_.end()) return known->second;
    }
    TS_ASSIGN(Ranking ranking, rank(problem));
    const std::lock_guard lock(mutex_);
    if (kept_.size() < kMost)
      kept_.emplace_back(problem, ranking);
    else
      kept_[oldest_++ % kMost] = {problem, ranking};
    return ranking;
  }

 private:
  static constexpr std::size_t kMost = 16;

  std::mutex mutex_;
  std::vector<std::pair<AttentionProblem, Ranking>> kept_;
  std::size_t oldest_ = 0;
};

}  // namespace tilesmith
