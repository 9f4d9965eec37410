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

  const Entry& best = *std::ranges::min_element(entries, {}, &Entry::seconds);
  if (const auto several = sizes_of_identity(problem)) {
    std::vector<MeasuredCorner>& corners = corners_[several->kind];
    const auto same = std::ranges::find(corners, several->sizes, &MeasuredCorner::sizes);
    if (same != corners.end())
      *same = {several->sizes, best.recipe, best.seconds};
    else
      corners.push_back({several->sizes, best.recipe, best.seconds});
  }
  const auto sized = sized_identity(problem);
  if (!sized) return;
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
  if (found == entries_.end()) {
    if (!apply_interval(identity, ranking)) apply_nearby(identity, ranking);
    return;
  }
  double best = 0;
  for (Candidate& candidate : ranking.candidates) {
    const auto entry = std::ranges::find(found->second, key_of(candidate.recipe), &Entry::recipe);
    if (entry == found->second.end()) continue;
    candidate.measured_seconds = entry->seconds;
    candidate.source = ChoiceSource::measurement;
    best = best == 0 ? entry->seconds : std::min(best, entry->seconds);
  }
  if (best == 0) return;
  for (Candidate& candidate : ranking.candidates)
    if (candidate.measured_seconds) candidate.bound = *candidate.measured_seconds / best;
  std::ranges::stable_sort(ranking.candidates, {}, [](const Candidate& candidate) {
    return candidate.measured_seconds.value_or(std::numeric_limits<double>::infinity());
  });
  ranking.policy = "measurements";
}

bool MeasuredTable::apply_interval(std::string_view identity, Ranking& ranking) const {
  const auto sized = sized_identity(identity);
  if (!sized) return false;
  const auto sizes = sizes_.find(sized->kind);
  if (sizes == sizes_.end()) return false;
  const auto interval = interval_of(sizes->second, sized->size);
  if (!interval || !is_trusted(*interval)) return false;
  return put_first(ranking, interval->recipe, interval->seconds, interval->bound, ChoiceSource::interval,
                   "measured interval");
}

bool MeasuredTable::apply_nearby(std::string_view identity, Ranking& ranking) const {
  const auto sized = sizes_of_identity(identity);
  if (!sized) return false;
  const auto corners = corners_.find(sized->kind);
  if (corners == corners_.end()) return false;
  const auto box = box_around(corners->second, sized->sizes);
  if (!box || !is_trusted(*box)) return false;
  return put_first(ranking, box->recipe, box->seconds, box->bound, ChoiceSource::nearby, "nearby measurements");
}

bool MeasuredTable::put_first(Ranking& ranking, Key128 recipe, double seconds, double bound, ChoiceSource source,
                              std::string_view policy) {
  const auto chosen = std::ranges::find_if(
      ranking.candidates, [&](const Candidate& candidate) { return key_of(candidate.recipe) == recipe; });
  if (chosen == ranking.candidates.end()) return false;
  chosen->measured_seconds = seconds;
  chosen->bound = bound;
  chosen->source = source;
  std::rotate(ranking.candidates.begin(), chosen, chosen + 1);
  ranking.policy = policy;
  return true;
}

}  // namespace tilesmith
