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

  const auto sized = sized_identity(problem);
  if (!sized) return;
  const Entry& best = *std::ranges::min_element(entries, {}, &Entry::seconds);
  std::vector<MeasuredSize>& sizes = sizes_[sized->kind];
  const auto at = std::ranges::lower_bound(sizes, sized->size, {}, &MeasuredSize::size);
  const MeasuredSize measured{.size = sized->size, .recipe = best.recipe, .seconds = best.seconds};
  if (at != sizes.end() && at->size == sized->size)
    *at = measured;
  else
    sizes.insert(at, measured);
}

std::optional<double> MeasuredTable::find(const AnyProblem& problem, Key128 recipe) const {
  const auto found = entries_.find(identity_of(problem));
  if (found == entries_.end()) return std::nullopt;
  const auto entry = std::ranges::find(found->second, recipe, &Entry::recipe);
  return entry == found->second.end() ? std::nullopt : std::optional(entry->seconds);
}

void MeasuredTable::apply(const AnyProblem& problem, Ranking& ranking) const {
  if (entries_.empty()) return;
  const std::string identity = identity_of(problem);
  const auto found = entries_.find(identity);
  if (found == entries_.end()) return apply_interval(identity, ranking);
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

void MeasuredTable::apply_interval(std::string_view identity, Ranking& ranking) const {
  const auto sized = sized_identity(identity);
  if (!sized) return;
  const auto sizes = sizes_.find(sized->kind);
  if (sizes == sizes_.end()) return;
  const auto interval = interval_of(sizes->second, sized->size);
  if (!interval || !is_trusted(*interval)) return;
  const auto chosen = std::ranges::find_if(
      ranking.candidates, [&](const Candidate& candidate) { return key_of(candidate.recipe) == interval->recipe; });
  if (chosen == ranking.candidates.end()) return;
  chosen->measured_seconds = interval->seconds;
  std::rotate(ranking.candidates.begin(), chosen, chosen + 1);
  ranking.policy = "measured interval";
}

}  // namespace tilesmith
