#include "choose/candidate.hpp"

#include <algorithm>
#include <tuple>

namespace tilesmith {
namespace {

/// A candidate in a sort, with its key once that was asked for: it takes microseconds, and where memory decides many
/// predictions are equal.
struct Sorted {
  Candidate* candidate;
  mutable std::optional<Key128> known_key{};

  [[nodiscard]] const KernelConfig& main() const { return candidate->recipe.main(); }
  [[nodiscard]] auto kind() const {
    const Algorithm& a = main().algorithm;
    return std::tie(main().arch, a.pipeline, a.instruction, a.tile, a.split_k);
  }
  [[nodiscard]] const Key128& key() const {
    if (!known_key) known_key = key_of(candidate->recipe);
    return *known_key;
  }
};

bool goes_first(const Sorted& own, const Sorted& other) {
  const double seconds = own.candidate->predicted_seconds, other_seconds = other.candidate->predicted_seconds;
  if (seconds != other_seconds) return seconds < other_seconds;
  if (own.kind() != other.kind()) return own.kind() > other.kind();
  return own.key() < other.key();
}

}  // namespace

void best_first(std::vector<Candidate>& candidates) {
  std::vector<Sorted> order;
  order.reserve(candidates.size());
  for (Candidate& candidate : candidates) order.push_back({&candidate});
  std::ranges::sort(order, goes_first);
  std::vector<Candidate> sorted;
  sorted.reserve(candidates.size());
  for (const Sorted& one : order) sorted.push_back(std::move(*one.candidate));
  candidates = std::move(sorted);
}

}  // namespace tilesmith
