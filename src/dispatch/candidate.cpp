#include "dispatch/candidate.hpp"

#include <algorithm>
#include <tuple>

namespace tilesmith {

void best_first(std::vector<Candidate>& candidates) {
  const auto kind = [](const KernelConfig& c) {
    return std::tie(c.arch, c.algorithm.pipeline, c.algorithm.instruction, c.algorithm.tile, c.algorithm.split_k);
  };
  std::ranges::sort(candidates, [&](const Candidate& a, const Candidate& b) {
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    if (kind(a.config) != kind(b.config)) return kind(a.config) > kind(b.config);
    return key_of(a.config) < key_of(b.config);  // takes microseconds
  });
}

}  // namespace tilesmith
