#include "choose/measured.hpp"

#include <algorithm>
#include <limits>

#include "problem/attention/problem.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

std::uint64_t hash_of_any(const AnyProblem& problem) {
  return std::visit([](const auto& one) { return hash_of(one); }, problem);
}

}  // namespace

void MeasuredTable::add(const AnyProblem& problem, Key128 recipe, double seconds) {
  std::vector<Entry>& entries = entries_[hash_of_any(problem)];
  for (Entry& entry : entries)
    if (entry.recipe == recipe && entry.problem == problem) {
      entry.seconds = seconds;
      return;
    }
  entries.push_back({problem, recipe, seconds});
}

std::optional<double> MeasuredTable::find(const AnyProblem& problem, Key128 recipe) const {
  const auto found = entries_.find(hash_of_any(problem));
  if (found == entries_.end()) return std::nullopt;
  for (const Entry& entry : found->second)
    if (entry.recipe == recipe && entry.problem == problem) return entry.seconds;
  return std::nullopt;
}

void MeasuredTable::apply(const AnyProblem& problem, Ranking& ranking) const {
  if (!entries_.contains(hash_of_any(problem))) return;
  bool any = false;
  for (Candidate& candidate : ranking.candidates) {
    candidate.measured_seconds = find(problem, key_of(candidate.recipe));
    any = any || candidate.measured_seconds.has_value();
  }
  if (!any) return;
  std::ranges::stable_sort(ranking.candidates, {}, [](const Candidate& candidate) {
    return candidate.measured_seconds.value_or(std::numeric_limits<double>::infinity());
  });
  ranking.policy = "measurements";
}

}  // namespace tilesmith
