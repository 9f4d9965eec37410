#include "base/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tilesmith {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Beyond this a "name" is an attack or an accident, and the quadratic distance would be felt.
constexpr std::size_t kLongestWord = 256;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: before_last is needed for the swap of two neighbours.
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> candidates,
                                       std::size_t count) {
  if (word.size() > kLongestWord) return {};
  std::vector<std::pair<std::size_t, const std::string*>> ranked;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= std::max<std::size_t>(1, longer / 3) && distance < longer)
      ranked.emplace_back(distance, &candidate);
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) names.push_back(*ranked[i].second);
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::vector<std::string> names = nearest_names(word, candidates);
  if (!names.empty()) return fmt::format("did you mean '{}'?", fmt::join(names, "' or '"));
  if (!candidates.empty() && candidates.size() <= 16) return fmt::format("one of: {}", fmt::join(candidates, ", "));
  return {};
}

}  // namespace tilesmith
