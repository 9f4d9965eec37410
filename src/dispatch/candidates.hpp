// The instances that compute a problem on this machine.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "dispatch/policy.hpp"
#include "runtime/cpu_machine.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Every instance of every level this machine runs whose signature is exactly the problem's; unsupported (with the first refusing rule and its
/// figures) when there is none.
[[nodiscard]] Result<std::vector<Candidate>> candidates_for(const AttentionProblem& problem, const CpuMachine& machine);

/// Whether a kernel of this config computes the problem, perhaps with traits the problem does not use. Those are given neutral values: a bias of
/// zero, a sink of minus infinity, a dropout threshold of zero, a place for the log-sum-exp that nobody reads; every mask is a window.
[[nodiscard]] bool serves(const KernelConfig& config, const AttentionProblem& problem);

/// Traits that a kernel which serves the problem carries for nothing; each costs time.
[[nodiscard]] int unused_traits(const KernelConfig& config, const AttentionProblem& problem);

}  // namespace tilesmith
