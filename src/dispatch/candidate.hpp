// A kernel that could compute a problem, and what a policy expects of it.
#pragma once

#include <vector>

#include "vocabulary/config.hpp"

namespace tilesmith {

struct Candidate {
  KernelConfig config;
  double seconds = 0;  ///< what the policy expects the call to take
};

/// Orders by seconds; ties go to the larger tile, then the smaller key, so that every machine of a kind chooses alike.
void best_first(std::vector<Candidate>& candidates);

}  // namespace tilesmith
