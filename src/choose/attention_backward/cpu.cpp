#include "choose/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "choose/cpu_level.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "problem/attention_backward/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Whether the kernel computes the problem: a generic one takes every trait at run time.
bool has_backward_traits(const KernelConfig& config, const AttentionBackwardProblem& problem) {
  return is_attention_backward(config) && config.algorithm.pipeline == Pipeline::generic &&
         config.attention().data_type == signature_of(problem).data_type;
}

/// The generic kernel computes the weights twice, in fp32, at a share of the lanes' products.
double predicted_backward_seconds(const AttentionBackwardProblem& p, const CpuSpec& spec, int threads) {
  constexpr double kShare = 0.25;  // a broadcast and a load for each two products, and two conversions
  constexpr double kCallCycles = 2000;
  const double again = 7.0 / 5.0 + (p.dbias ? 2.0 / 5.0 : 0);
  const double cycles = flops_of(p) / 2 * again / (kShare * spec.vector_bits_per_cycle / 32.0);
  return (cycles / std::max(threads, 1) + kCallCycles) / spec.clock_hz;
}

}  // namespace

Result<Ranking> rank(const CpuFacts& facts, const AttentionBackwardProblem& problem) {
  std::vector<Candidate> candidates;
  for (const CpuSpec& spec : facts.levels) {
    const KernelConfig config = generic_cpu_attention_backward(spec, signature_of(problem).data_type);
    candidates.push_back({config, predicted_backward_seconds(problem, spec, facts.threads)});
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
      candidates.push_back({config, predicted_backward_seconds(problem, *spec, facts.threads)});
  best_first(candidates);
  return candidates;
}

Status serves(const CpuFacts& facts, const KernelConfig& config, const AttentionBackwardProblem& problem) {
  TS_TRY(check_runs_on(facts, config));
  if (has_backward_traits(config, problem)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", native_name(config)),
              "a kernel of attention_bwd with the problem's type");
}

}  // namespace tilesmith
