#include "catalog/candidates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/json.hpp"
#include "choose/attention/ck.hpp"
#include "choose/attention/cpu.hpp"
#include "choose/attention/cuda.hpp"
#include "choose/attention/hip.hpp"
#include "choose/attention_backward/ck.hpp"
#include "choose/attention_backward/cpu.hpp"
#include "choose/attention_backward/cuda.hpp"
#include "choose/conv/ck.hpp"
#include "choose/conv/cpu.hpp"
#include "choose/conv/cuda.hpp"
#include "choose/gemm/ck.hpp"
#include "choose/gemm/cpu.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/gemm/hip.hpp"
#include "choose/inductor.hpp"
#include "choose/serving/ck.hpp"
#include "spec/architectures.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith {

namespace {

Result<DeviceFacts> ck_facts_of(std::string_view arch) {
  TS_ASSIGN(const AmdChip* chip, find_amd_chip(arch));
  TS_ASSIGN(const std::vector<HipSpec> figures, load_hip_specs());
  for (const HipSpec& spec : figures)
    if (spec.arch.text() == arch) return CkFacts{*chip, spec.reference};
  std::vector<std::string_view> known;
  for (const HipSpec& spec : figures) known.push_back(spec.arch.text());
  return fail(ErrorCode::unsupported, fmt::format("there are no figures of a chip for {}", arch),
              fmt::format("{}, or a file in specs/hip", fmt::join(known, ", ")));
}

/// The candidates in the order of the policy.
template <class Device, class Problem>
Result<Ranking> ranking_by(SelectionPolicy policy, const Device& device, const Problem& problem) {
  if (policy == SelectionPolicy::upstream) {
    if constexpr (requires { upstream_ranking(device, problem); })
      return upstream_ranking(device, problem);
    else
      return fail(ErrorCode::invalid_argument,
                  fmt::format("there are no rules of upstream for {} here", operation_name_of(problem)),
                  "attention and GEMM of Composable Kernel (--origin ck) have some");
  }
  TS_TRY(check_policy<Problem>(policy, operation_name_of(problem)));
  TS_ASSIGN(Ranking ranking, rank(device, problem));
  select(policy, problem, ranking);
  return ranking;
}

}  // namespace

Result<DeviceFacts> facts_of(std::string_view arch, int threads, Origin origin) {
  if (origin == Origin::ck) return ck_facts_of(arch);
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  for (const CpuSpec& level : levels) {
    if (level.arch.text() != arch) continue;
    CpuFacts facts{.threads = threads, .levels = {level}};
    for (const ArchName& included : level.includes) {
      facts.levels.push_back(*std::ranges::find(levels, included, &CpuSpec::arch));
      facts.levels.back().l1d_bytes = level.l1d_bytes;  // of the machine, whatever its kernels
      facts.levels.back().l2_bytes = level.l2_bytes;
    }
    return facts;
  }
  TS_ASSIGN(const std::vector<CudaSpec> specs, load_cuda_specs());
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == arch) return spec;
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  for (const HipSpec& spec : hip)
    if (spec.arch.text() == arch) return spec;
  return std::unexpected(no_own_kernels(arch, "dispatch has no kernels"));
}

Result<CandidateList> list_candidates(const DeviceFacts& facts, const AnyProblem& problem, SelectionPolicy policy) {
  return std::visit(
      [policy](const auto& device, const auto& one) -> Result<CandidateList> {
        if constexpr (requires { rank(device, one); }) {
          TS_ASSIGN(Ranking ranking, ranking_by(policy, device, one));
          TS_ASSIGN(std::vector<Refusal> refused, refusals(device, one));
          CandidateList list{std::move(ranking), std::move(refused)};
          if constexpr (requires { model_terms(device, one); }) list.terms = model_terms(device, one);
          if constexpr (requires { ck_num_splits(device, one, 1); }) {
            list.parts_name = "num_splits";
            for (const Candidate& candidate : list.ranking.candidates)
              list.parts.push_back(candidate.recipe.steps.size() > 1
                                       ? ck_num_splits(device, one, candidate.recipe.main().algorithm.tile[1])
                                       : 0);
          } else if constexpr (requires { ck_k_batch(device, KernelConfig(), one); }) {
            list.parts_name = "k_batch";
            for (const Candidate& candidate : list.ranking.candidates) {
              const std::int64_t parts = ck_k_batch(device, candidate.recipe.main(), one);
              list.parts.push_back(parts > 1 ? parts : 0);
            }
          }
          return list;
        } else {
          return fail(ErrorCode::unsupported, fmt::format("no kernels of {} for this device", operation_name_of(one)),
                      "a device that has them, such as a CPU level");
        }
      },
      facts, problem);
}

Result<CandidateList> list_candidates(const DeviceFacts& facts, const AppendKv& call) {
  const auto* chip = std::get_if<CkFacts>(&facts);
  if (chip == nullptr)
    return fail(ErrorCode::unsupported, "a device's own kernels leave nothing to choose: one appends to every cache",
                "--origin ck with an AMD architecture");
  TS_ASSIGN(Ranking ranking, rank(*chip, call));
  TS_ASSIGN(std::vector<Refusal> refused, refusals(*chip, call));
  return CandidateList{std::move(ranking), std::move(refused)};
}

std::string candidates_text(const CandidateList& list, bool refused) {
  std::string text;
  const auto out = std::back_inserter(text);
  std::size_t place = 0;
  for (const Candidate& candidate : list.ranking.candidates) {
    fmt::format_to(out, "{:4} {:12.2f} us  {}", ++place, 1e6 * candidate.predicted_seconds,
                   recipe_name(candidate.recipe));
    if (!list.parts.empty() && list.parts[place - 1] > 0)
      fmt::format_to(out, "  {} {}", list.parts_name, list.parts[place - 1]);
    text += '\n';
  }
  if (!refused) return text;
  struct Group {
    std::size_t count = 0;
    const Refusal* example = nullptr;
  };
  std::map<std::string_view, Group> groups;
  for (const Refusal& refusal : list.refused) {
    Group& group = groups[refusal.rule];
    if (group.count++ == 0) group.example = &refusal;
  }
  std::vector<std::pair<std::string_view, Group>> ordered(groups.begin(), groups.end());
  std::ranges::stable_sort(ordered, std::greater(), [](const auto& one) { return one.second.count; });
  fmt::format_to(out, "refused: {}\n", list.refused.size());
  for (const auto& [rule, group] : ordered)
    fmt::format_to(out, "{:6}  {}: {}, for example {}\n", group.count, rule, group.example->figures,
                   kernel_name(group.example->config));
  return text;
}

std::string candidates_json(const CandidateList& list, bool refused) {
  nlohmann::json document = {{"policy", list.ranking.policy}, {"candidates", nlohmann::json::array()}};
  std::size_t place = 0;
  for (const Candidate& candidate : list.ranking.candidates) {
    nlohmann::json one = {
        {"rank", ++place}, {"predicted_seconds", candidate.predicted_seconds}, {"name", recipe_name(candidate.recipe)}};
    const auto found = std::ranges::find(list.terms, candidate.recipe.main(), &ModelTerms::config);
    if (found != list.terms.end())
      for (std::size_t i = 0; i < found->names.size(); ++i)
        one["terms"][std::string(found->names[i])] = found->values[i];
    if (!list.parts.empty() && list.parts[place - 1] > 0) one[std::string(list.parts_name)] = list.parts[place - 1];
    document["candidates"].push_back(std::move(one));
  }
  if (refused) {
    document["refused"] = nlohmann::json::array();
    for (const Refusal& refusal : list.refused)
      document["refused"].push_back(
          {{"name", kernel_name(refusal.config)}, {"rule", refusal.rule}, {"figures", refusal.figures}});
  }
  return document.dump(2) + "\n";
}

}  // namespace tilesmith
