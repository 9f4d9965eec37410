// Policies: how candidates for a problem are ranked. The static policy below knows nothing but facts and figures of the
// machine; measured policies read the performance database behind the same interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "choose/candidate.hpp"
#include "runtime/cpu/machine.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Fills in `seconds` and puts the best candidate first: see best_first.
  virtual void rank(const AttentionProblem& problem, const CpuMachine& machine, int threads,
                    std::vector<Candidate>& candidates) const = 0;
};

/// The analytic cost model: the time the instruction needs for the padded work, or memory for the bytes, whichever is
/// longer, spread over the threads in whole tasks.
class CostModelPolicy final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "cost model"; }
  void rank(const AttentionProblem& problem, const CpuMachine& machine, int threads,
            std::vector<Candidate>& candidates) const override;
};

/// Seconds one candidate is expected to take; exposed for tests.
[[nodiscard]] double expected_seconds(const AttentionProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                      int threads);

/// Pieces a decode kernel cuts the keys into, so that every thread has work: 1 for other pipelines.
[[nodiscard]] std::int64_t splits_for(const AttentionProblem& problem, const KernelConfig& config, int threads);

}  // namespace tilesmith
