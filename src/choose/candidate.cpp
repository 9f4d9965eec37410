#include "choose/candidate.hpp"

#include <algorithm>
#include <tuple>

namespace tilesmith {

void best_first(std::vector<Candidate>& candidates) {
  const auto kind = [](const KernelConfig& c) {
    return std::tie(c.arch, c.algorithm.pipeline, c.algorithm.instruction, c.algorithm.tile, c.algorithm.split_k);
  };
  std::ranges::sort(candidates, [&](const Candidate& a, const Candidate& b) {
    if (a.predicted_seconds != b.predicted_seconds) return a.predicted_seconds < b.predicted_seconds;
    const KernelConfig &own = a.recipe.main(), &other = b.recipe.main();
    if (kind(own) != kind(other)) return kind(own) > kind(other);
    return key_of(a.recipe) < key_of(b.recipe);  // takes microseconds
  });
}

}  // namespace tilesmith
