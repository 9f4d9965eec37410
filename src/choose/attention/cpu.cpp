#include "choose/attention/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "choose/attention/batch_invariant.hpp"
#include "choose/attention/cpu_model.hpp"
#include "choose/attention/cpu_terms.hpp"
#include "choose/cpu_level.hpp"
#include "choose/cpu_threads.hpp"
#include "instances/attention/cpu.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Why no level has a kernel: the rule that refuses a config which differs from a valid one in the signature alone.
Error why_none(const CpuFacts& machine, const AttentionSignature& signature) {
  for (const CpuSpec& spec : machine.levels)
    for (const CpuAttentionInstruction& facts : spec.attention_fwd) {
      if (std::ranges::find(facts.data_types, signature.data_type) == facts.data_types.end()) continue;
      for (const CpuTiles& tiles : facts.pipelines) {
        KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
        config.algorithm.instruction = facts.instruction;
        config.algorithm.pipeline = tiles.pipeline;
        config.algorithm.tile = {static_cast<std::uint16_t>(tiles.tile_m.front()),
                                 static_cast<std::uint16_t>(tiles.tile_n.front())};
        const CpuAttentionSubject subject{config, spec};
        if (const auto* rule = first_refusal(cpu_attention_rules(), subject))
          return {ErrorCode::unsupported,
                  fmt::format("no CPU kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
                  std::string(rule->about)};
      }
    }
  return {ErrorCode::unsupported, fmt::format("no CPU kernel computes this problem on {}", name_of(machine))};
}

/// Whether the kernel computes the problem: what is left of its signature, when the traits that arguments can
/// neutralize are the problem's, is the problem's. So a trait that is added is one that must agree.
bool has_traits(const KernelConfig& config, const AttentionProblem& problem) {
  if (config.operation() != Operation::attention) return false;
  const AttentionSignature& have = config.attention();
  const AttentionSignature want = signature_of(problem);
  if (config.algorithm.pipeline == Pipeline::generic)
    return have.family == want.family && have.data_type == want.data_type;
  AttentionSignature rest = have;
  if (have.mask == MaskKind::generic) rest.mask = want.mask;
  if (have.bias == BiasKind::elementwise && want.bias == BiasKind::none) rest.bias = want.bias;
  if (have.lse) rest.lse = want.lse;
  if (have.dropout) rest.dropout = want.dropout;
  if (have.sink) rest.sink = want.sink;
  return rest == want;
}

/// Traits that a kernel which computes the problem carries for nothing; each costs time.
int unused_traits(const KernelConfig& config, const AttentionProblem& problem) {
  const AttentionSignature& have = config.attention();
  const AttentionSignature want = signature_of(problem);
  if (config.algorithm.pipeline == Pipeline::generic) return 100;  // after all others
  return (have.mask != want.mask) + (have.bias != want.bias) + (have.lse != want.lse) + (have.dropout != want.dropout) +
         (have.sink != want.sink);
}

/// Predicts the candidates' seconds and sorts them. Of batch-invariant problems the order is that of one usual sequence
/// on one thread.
void predict_and_sort(std::vector<Candidate>& candidates, const CpuFacts& facts, const AttentionProblem& problem) {
  const auto predict = [&](const AttentionProblem& of, int threads) {
    for (Candidate& candidate : candidates) {
      const KernelConfig& config = candidate.recipe.main();
      candidate.predicted_seconds = seconds_of_call(of, config, *facts.level(config.arch), threads);
    }
  };
  if (!problem.batch_invariant) {
    predict(problem, facts.threads);
    best_first(candidates);
    return;
  }
  predict(usual_sequence_of(problem), 1);
  best_first(candidates);
  predict(problem, facts.threads);
}

}  // namespace

Result<Ranking> rank(const CpuFacts& facts, const AttentionProblem& problem) {
  const AttentionSignature signature = signature_of(problem);
  std::vector<Candidate> candidates;
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_attention(spec, signature, [&](const KernelConfig& config) {
      candidates.push_back({config, 0});
      return true;
    });
  // A generic kernel where there is no other: beside others it comes last, among the fallbacks.
  if (candidates.empty() &&
      std::ranges::find(generic_cpu_attention_types(), signature.data_type) != generic_cpu_attention_types().end())
    for (const CpuSpec& spec : facts.levels)
      candidates.push_back({generic_cpu_attention(spec, signature.data_type), 0});
  if (candidates.empty()) return std::unexpected(why_none(facts, signature));
  predict_and_sort(candidates, facts, problem);
  return Ranking{std::move(candidates), "cost model"};
}

std::vector<ModelTerms> model_terms(const CpuFacts& facts, const AttentionProblem& problem) {
  std::vector<ModelTerms> out;
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_attention(spec, signature_of(problem), [&](const KernelConfig& config) {
      const CpuAttentionTerms terms = cpu_attention_terms(problem, config, spec, facts.threads);
      out.push_back({config, kCpuAttentionTerms, {terms.begin(), terms.end()}});
      return true;
    });
  return out;
}

std::vector<Candidate> fallbacks(const CpuFacts& facts, const AttentionProblem& problem,
                                 std::span<const KernelConfig> linked) {
  std::vector<Candidate> candidates;
  for (const KernelConfig& config : linked)
    if (facts.level(config.arch) != nullptr && has_traits(config, problem)) candidates.push_back({config, 0});
  predict_and_sort(candidates, facts, problem);
  std::ranges::stable_sort(candidates, {}, [&](const Candidate& c) { return unused_traits(c.recipe.main(), problem); });
  return candidates;
}

Status serves(const CpuFacts& facts, const KernelConfig& config, const AttentionProblem& problem) {
  TS_TRY(check_runs_on(facts, config));
  if (has_traits(config, problem)) return {};
  return fail(
      ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", native_name(config)),
      fmt::format(
          "the problem's kernels are {}",
          native_name({.arch = config.arch, .signature = signature_of(problem), .algorithm = config.algorithm})));
}

Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const AttentionProblem& problem) {
  const AttentionSignature signature = signature_of(problem);
  RefusalList list({});
  for (const CpuSpec& spec : facts.levels)
    walk_cpu_attention(spec, signature, [&](const KernelConfig& config, const auto* refused) {
      if (refused != nullptr) list.add(*refused, CpuAttentionSubject{config, spec});
      return true;
    });
  return list.take();
}

}  // namespace tilesmith
