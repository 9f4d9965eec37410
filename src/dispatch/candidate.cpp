#include "dispatch/candidate.hpp"

#include <algorithm>

namespace tilesmith {

void best_first(std::vector<Candidate>& candidates) {
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    return key_of(a.config) < key_of(b.config);
  });
}

}  // namespace tilesmith
