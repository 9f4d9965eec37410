// The instances that compute a problem on this machine.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "dispatch/attention/policy.hpp"
#include "runtime/cpu/machine.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Every instance of every level this machine runs whose signature is exactly the problem's; unsupported (with the
/// first refusing rule and its figures) when there is none.
[[nodiscard]] Result<std::vector<Candidate>> candidates_for(const AttentionProblem& problem, const CpuMachine& machine);

/// Whether a kernel of this config computes the problem, perhaps with traits the problem does not use: an absent bias,
/// sink or log-sum-exp is a null pointer to the kernel, no dropout a threshold of zero, and every mask is a window.
[[nodiscard]] bool serves(const KernelConfig& config, const AttentionProblem& problem);

/// Traits that a kernel which serves the problem carries for nothing; each costs time.
[[nodiscard]] int unused_traits(const KernelConfig& config, const AttentionProblem& problem);

}  // namespace tilesmith
