#include "choose/measured.hpp"

#include <algorithm>
#include <limits>

namespace tilesmith {

void MeasuredTable::add(std::string_view problem, Key128 recipe, double seconds) {
  std::vector<Entry>& entries = entries_[std::string(problem)];
  const auto known = std::ranges::find(entries, recipe, &Entry::recipe);
  if (known != entries.end())
    known->seconds = seconds;
  else
    entries.push_back({recipe, seconds});
}

std::optional<double> MeasuredTable::find(const AnyProblem& problem, Key128 recipe) const {
  const auto found = entries_.find(identity_of(problem));
  if (found == entries_.end()) return std::nullopt;
  const auto entry = std::ranges::find(found->second, recipe, &Entry::recipe);
  return entry == found->second.end() ? std::nullopt : std::optional(entry->seconds);
}

void MeasuredTable::apply(const AnyProblem& problem, Ranking& ranking) const {
  if (entries_.empty()) return;
  const auto found = entries_.find(identity_of(problem));
  if (found == entries_.end()) return;
  bool any = false;
  for (Candidate& candidate : ranking.candidates) {
    const auto entry = std::ranges::find(found->second, key_of(candidate.recipe), &Entry::recipe);
    if (entry == found->second.end()) continue;
    candidate.measured_seconds = entry->seconds;
    any = true;
  }
  if (!any) return;
  std::ranges::stable_sort(ranking.candidates, {}, [](const Candidate& candidate) {
    return candidate.measured_seconds.value_or(std::numeric_limits<double>::infinity());
  });
  ranking.policy = "measurements";
}

}  // namespace tilesmith
