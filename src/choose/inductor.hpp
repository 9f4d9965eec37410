// PyTorch Inductor's way of choosing, over our own kernels: the configs that its heuristics would time for a problem,
// and the kernels of ours nearest to them. For comparison: what a table of tiles that knows the problem's sizes alone
// can reach (`--policy inductor`).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/inductor_tables.hpp"
#include "choose/selection_policy.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/conv.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/arch_name.hpp"

namespace tilesmith {

/// What Inductor asks of a device.
struct InductorDevice {
  std::string_view name = "cpu";  ///< "cpu", "cuda" or "rocm"
  int major = 0, minor = 0;       ///< compute capability
  long shared_bytes = 0;          ///< of a block, with opt-in
};

/// The device of an architecture that kernels are made for: a compute capability, else a CPU.
[[nodiscard]] InductorDevice inductor_device(const ArchName& arch);

/// The configs of one table made fit for a GEMM: scaled to the sizes, those left out that the device excludes, pruned
/// by shared memory and registers (`prunes`: of the exhaustive search), warps limited by the tile, each once.
struct InductorFit {
  InductorDevice device{};
  std::int64_t m = 0, n = 0, k = 0;
  int element_bits = 16;
  bool has_int8 = false;  ///< an operand is int8: the least block along k is larger
  bool is_mm = true;      ///< the template is mm or int_mm (the CPU's exclusion differs)
  bool scales = true;     ///< mm_plus_mm does not
  bool prunes = false;
};
[[nodiscard]] std::vector<InductorConfig> fitted(std::vector<InductorConfig> rows, const InductorFit& fit);

/// The configs that Inductor times for the problem, in its order, each once.
[[nodiscard]] std::vector<InductorConfig> inductor_configs(const InductorTables& tables, const InductorDevice& device,
                                                           const GemmProblem& problem, bool exhaustive);
[[nodiscard]] std::vector<InductorConfig> inductor_configs(const InductorTables& tables, const InductorDevice& device,
                                                           const AttentionProblem& problem, bool exhaustive);

/// Inductor's templates of convolution are for GPUs.
[[nodiscard]] inline std::vector<InductorConfig> inductor_configs(const InductorTables&, const InductorDevice&,
                                                                  const ConvProblem&, bool) {
  return {};
}

/// Inductor times no template of attention backward.
[[nodiscard]] inline std::vector<InductorConfig> inductor_configs(const InductorTables&, const InductorDevice&,
                                                                  const AttentionBackwardProblem&, bool) {
  return {};
}

/// Error: the policy is Inductor's, and it times no templates of the operation that there are configs of here.
template <class Problem>
[[nodiscard]] Status check_policy(SelectionPolicy policy, std::string_view operation) {
  const bool is_inductors = policy == SelectionPolicy::inductor || policy == SelectionPolicy::inductor_exhaustive;
  if (!is_inductors || std::is_same_v<Problem, GemmProblem> || std::is_same_v<Problem, AttentionProblem>) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("there are no configs of Inductor for {} here", operation),
              "attention_fwd and gemm have some; dispatch and model are of every operation");
}

/// The places, in the candidates' order, of those nearest to the configs: for each config the one whose tile differs
/// least in log2 (m and n, a quarter of k's, a tenth of the stages'), the earlier of equal ones. Each once, in the
/// configs' order. Of several instructions (wgmma, mma) those of the fastest candidate count, as a compiler would take.
[[nodiscard]] std::vector<std::size_t> nearest_candidates(const std::vector<Candidate>& candidates,
                                                          const std::vector<InductorConfig>& configs);

/// The places of the candidates that the policy looks at, in its order; of `dispatch` all. The order of `upstream` is
/// not one of candidates: it belongs to Composable Kernel's instances (upstream_ranking), and here it is as `dispatch`.
template <class Problem>
[[nodiscard]] std::vector<std::size_t> selected(SelectionPolicy policy, const Problem& problem,
                                                const std::vector<Candidate>& candidates) {
  const auto all = [&] {
    std::vector<std::size_t> places(candidates.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
    return places;
  };
  switch (policy) {
    case SelectionPolicy::dispatch:
    case SelectionPolicy::upstream:
      return all();
    case SelectionPolicy::model: {
      std::vector<std::size_t> places = all();
      std::ranges::stable_sort(places, {}, [&](std::size_t place) { return candidates[place].predicted_seconds; });
      return places;
    }
    case SelectionPolicy::inductor:
    case SelectionPolicy::inductor_exhaustive:
      break;
  }
  if (candidates.empty()) return {};
  return nearest_candidates(
      candidates, inductor_configs(InductorTables::built_in(), inductor_device(candidates.front().recipe.main().arch),
                                   problem, policy == SelectionPolicy::inductor_exhaustive));
}

/// Leaves of the ranking the candidates that the policy looks at, in its order, and names the policy.
template <class Problem>
void select(SelectionPolicy policy, const Problem& problem, Ranking& ranking) {
  if (policy == SelectionPolicy::dispatch) return;
  std::vector<Candidate> kept;
  for (const std::size_t place : selected(policy, problem, ranking.candidates))
    kept.push_back(ranking.candidates[place]);
  ranking.candidates = std::move(kept);
  ranking.policy = name_of(policy);
}

}  // namespace tilesmith
