// A kernel that could compute a problem, and what a policy expects of it.
#pragma once

#include "kernel/config.hpp"

namespace tilesmith {

struct Candidate {
  KernelConfig config;
  double seconds = 0;  ///< what the policy expects the call to take
};

}  // namespace tilesmith
