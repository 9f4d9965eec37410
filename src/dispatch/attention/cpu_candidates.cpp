#include "dispatch/attention/cpu_candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "instances/attention/cpu.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {

Result<std::vector<Candidate>> candidates_for(const AttentionProblem& problem, const CpuMachine& machine) {
  const AttentionSignature signature = signature_of(problem);
  std::vector<Candidate> candidates;
  for (const CpuSpec& spec : machine.levels)
    enumerate_cpu_attention(spec, signature, [&](const KernelConfig& config) {
      candidates.push_back({config, 0});
      return true;
    });
  if (!candidates.empty()) return candidates;

  // Say which rule stands in the way, asked of a config that differs from a valid one in the signature alone.
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
          return fail(
              ErrorCode::unsupported,
              fmt::format("no CPU kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
              std::string(rule->about));
      }
    }
  return fail(ErrorCode::unsupported,
              fmt::format("no CPU kernel computes this problem on {}", machine.levels.front().arch.text()));
}

bool serves(const KernelConfig& config, const AttentionProblem& problem) {
  if (config.operation() != Operation::attention) return false;
  const AttentionSignature& have = config.attention();
  const AttentionSignature want = signature_of(problem);
  return have.family == want.family && have.data_type == want.data_type && have.mode == want.mode &&
         have.head_dim_qk == want.head_dim_qk && have.head_dim_v == want.head_dim_v &&
         (have.mask == want.mask || have.mask == MaskKind::generic) &&
         (have.bias == want.bias || (have.bias == BiasKind::elementwise && want.bias == BiasKind::none)) &&
         (have.lse || !want.lse) && (have.dropout || !want.dropout) && have.soft_cap == want.soft_cap &&
         (have.sink || !want.sink);
}

int unused_traits(const KernelConfig& config, const AttentionProblem& problem) {
  const AttentionSignature& have = config.attention();
  const AttentionSignature want = signature_of(problem);
  return (have.mask != want.mask) + (have.bias != want.bias) + (have.lse != want.lse) + (have.dropout != want.dropout) +
         (have.sink != want.sink);
}

}  // namespace tilesmith
