// What dispatch has to choose from for a problem, in its order, and what was refused, for people and for programs.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "problem/operations.hpp"
#include "spec/cpu/facts.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

/// The facts of a device, or of an architecture's reference chip.
using DeviceFacts = std::variant<CpuFacts, CudaSpec, HipSpec>;

/// The facts of an architecture by its name; of a CPU level with the levels that it includes. Errors: not_found,
/// unsupported for architectures without kernels of our own.
[[nodiscard]] Result<DeviceFacts> facts_of(std::string_view arch, int threads);

struct CandidateList {
  Ranking ranking;
  std::vector<Refusal> refused;  ///< every other config of the problem's space
  /// Of CUDA attention: what each kernel's predicted seconds are the weighted sum of.
  std::vector<std::pair<KernelConfig, CudaAttentionTerms>> terms{};
};

/// Errors: unsupported, when no kernel computes the problem.
[[nodiscard]] Result<CandidateList> list_candidates(const DeviceFacts& facts, const AnyProblem& problem);

/// A line for each candidate: its rank, predicted microseconds, recipe. With `refused`, behind them the reasons of the
/// refusals by their counts, each with an example.
[[nodiscard]] std::string candidates_text(const CandidateList& list, bool refused);

/// {"policy", "candidates": [{"rank", "predicted_seconds", "name", "terms": {NAME: VALUE}}], "refused": [{"name",
/// "rule", "figures"}]}; "terms" where the list has them, "refused" only where it is asked for.
[[nodiscard]] std::string candidates_json(const CandidateList& list, bool refused);

}  // namespace tilesmith
