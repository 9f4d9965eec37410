#include "choose/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "choose/attention_backward/cpu_model.hpp"
#include "choose/cpu_level.hpp"
#include "choose/cpu_threads.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/attention_backward/families.hpp"
#include "problem/attention_backward/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Whether the kernel computes the problem. A generic one takes every trait at run time; a flash kernel's traits are
/// the problem's, but those that arguments can neutralize.
bool has_backward_traits(const KernelConfig& config, const AttentionBackwardProblem& problem) {
  if (!is_attention_backward(config)) return false;
  const AttentionSignature& have = config.attention();
  const AttentionSignature wanted = flash_backward_signature(signature_of(problem));
  if (config.algorithm.pipeline == Pipeline::generic) return have.data_type == wanted.data_type;
  AttentionSignature rest = have;
  if (have.bias == BiasKind::elementwise && wanted.bias == BiasKind::none) rest.bias = wanted.bias;
  if (have.dropout) rest.dropout = wanted.dropout;
  return rest == wanted && !problem.dalibi;
}

}  // namespace

Result<Ranking> rank(const CpuFacts& facts, const AttentionBackwardProblem& problem) {
  const AttentionSignature signature = signature_of(problem);
  std::vector<Candidate> candidates;
  for (const CpuSpec& spec : facts.levels) {
    const auto add = [&](const KernelConfig& config) {
      candidates.push_back({config, seconds_of_call(problem, config, spec, facts.threads)});
      return true;
    };
    add(generic_cpu_attention_backward(spec, signature.data_type));
    if (!problem.dalibi) enumerate_cpu_attention_backward(spec, flash_backward_signature(signature), add);
  }
  if (candidates.empty())
    return fail(ErrorCode::unsupported, fmt::format("no CPU kernel computes this problem on {}", name_of(facts)));
  best_first(candidates);
  return Ranking{std::move(candidates), "cost model"};
}

std::vector<Candidate> fallbacks(const CpuFacts& facts, const AttentionBackwardProblem& problem,
                                 std::span<const KernelConfig> linked) {
  std::vector<Candidate> candidates;
  for (const KernelConfig& config : linked)
    if (const CpuSpec* spec = facts.level(config.arch); spec != nullptr && has_backward_traits(config, problem))
      candidates.push_back({config, seconds_of_call(problem, config, *spec, facts.threads)});
  best_first(candidates);
  return candidates;
}

Status serves(const CpuFacts& facts, const KernelConfig& config, const AttentionBackwardProblem& problem) {
  TS_TRY(check_runs_on(facts, config));
  if (has_backward_traits(config, problem)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", native_name(config)),
              "a generic kernel of attention_bwd with the problem's type, or one with its traits");
}

Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const AttentionBackwardProblem& problem) {
  RefusalList list({});
  for (const CpuSpec& spec : facts.levels)
    walk_cpu_attention_backward(spec, signature_of(problem), [&](const KernelConfig& config, const auto* refused) {
      if (refused != nullptr) {
        list.add(*refused, CpuAttentionBackwardSubject{config, spec});
      } else if (problem.dalibi) {
        list.add(config, "writes_no_dalibi", "the problem wants the gradient of the slopes");
      }
      return true;
    });
  return list.take();
}

}  // namespace tilesmith
