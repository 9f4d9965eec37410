// What dispatch has to choose from for a problem, in its order, and what was refused, for people and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "choose/selection_policy.hpp"
#include "problem/operations.hpp"
#include "spec/amd/facts.hpp"
#include "spec/cpu/facts.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

/// The facts of a device, or of an architecture's reference chip; for Composable Kernel's instances CkFacts.
using DeviceFacts = std::variant<CpuFacts, CudaSpec, HipSpec, CkFacts>;

/// The facts of an architecture by its name; of a CPU level with the levels that it includes. Errors: not_found,
/// unsupported for architectures without kernels of the origin, or without the figures of a chip.
[[nodiscard]] Result<DeviceFacts> facts_of(std::string_view arch, int threads, Origin origin = Origin::own);

struct CandidateList {
  Ranking ranking;
  std::vector<Refusal> refused;     ///< every other config of the problem's space
  std::vector<ModelTerms> terms{};  ///< of attention with a fitted model
  /// Of Composable Kernel's attention and convolutions: for each candidate the argument of its call that says how many
  /// parts a sum is cut into (num_splits, k_batch), 0 where it takes none; and the argument's name. Else empty.
  std::vector<std::int64_t> parts{};
  std::string_view parts_name{};
};

/// Errors: unsupported, when no kernel computes the problem; invalid_argument, for upstream's policy of kernels that
/// are not Composable Kernel's.
[[nodiscard]] Result<CandidateList> list_candidates(const DeviceFacts& facts, const AnyProblem& problem,
                                                    SelectionPolicy policy = SelectionPolicy::dispatch);

/// Of a call that has no plan, on Composable Kernel's instances. Errors: unsupported, also for other kernels, of which
/// there is one for each call.
[[nodiscard]] Result<CandidateList> list_candidates(const DeviceFacts& facts, const AppendKv& call);

/// A line for each candidate: its rank, predicted microseconds, recipe, parts where it takes some. With `refused`,
/// behind them the reasons of the refusals by their counts, each with an example.
[[nodiscard]] std::string candidates_text(const CandidateList& list, bool refused);

/// {"policy", "candidates": [{"rank", "predicted_seconds", "name", "terms": {NAME: VALUE}, "num_splits", "k_batch"}],
/// "refused": [{"name", "rule", "figures"}]}; "terms" and parts where the list has them, "refused" only where it is
/// asked for.
[[nodiscard]] std::string candidates_json(const CandidateList& list, bool refused);

}  // namespace tilesmith
