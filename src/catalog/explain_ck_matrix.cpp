// Explanations of AMD GEMM and convolution instances.
#include <fmt/format.h>

#include <algorithm>

#include "catalog/explain_backend.hpp"
#include "instances/conv/ck.hpp"
#include "instances/gemm/ck.hpp"

namespace tilesmith {

Result<Explanation> explain_amd_gemm(const AmdChip& chip, KernelConfig config) {
  const auto& spec = amd_gemm_spec();
  if (!spec) return std::unexpected(spec.error());
  config.arch = chip.arch;
  Explanation out;
  out.config = config;
  const AmdGemmSubject subject{config, chip, *spec};
  out.listed = verdicts(amd_gemm_sweep_rules(), subject);
  for (RuleVerdict& verdict : verdicts(amd_gemm_rules(), subject)) out.listed.push_back(std::move(verdict));
  out.sound = verdicts(amd_gemm_sound_rules(), subject);
  const GemmSignature& signature = std::get<GemmSignature>(config.signature);
  const AmdGemmQuery query{.chip = chip,
                           .spec = *spec,
                           .layout = fmt::format("{}{}{}", name_of(signature.layout_a), name_of(signature.layout_b),
                                                 name_of(signature.layout_c))};
  find_nearest(out, [&](ConfigSink sink) {
    enumerate_amd_gemm(query, signature.family, [&](const KernelConfig& candidate) {
      return first_refusal(amd_gemm_sound_rules(), AmdGemmSubject{candidate, chip, *spec}) != nullptr ||
             sink(candidate);
    });
  });
  return out;
}

Result<Explanation> explain_amd_conv(const AmdChip& chip, KernelConfig config) {
  const auto& spec = amd_conv_spec();
  if (!spec) return std::unexpected(spec.error());
  const auto& gemm = amd_gemm_spec();
  if (!gemm) return std::unexpected(gemm.error());
  config.arch = chip.arch;
  Explanation out;
  out.config = config;
  const ConvSignature& signature = std::get<ConvSignature>(config.signature);
  const AmdConvSubject subject{config, chip, *spec, *gemm};
  out.listed = verdicts(amd_conv_rules(), subject);
  out.sound = verdicts(amd_conv_sound_rules(), subject);

  // The rule tables are lists, so membership is looked up rather than derived.
  const AmdConvQuery query{.chip = chip,
                           .spec = *spec,
                           .gemm = *gemm,
                           .directions = {signature.direction},
                           .spatial_dims = {signature.spatial_dims}};
  bool found = false;
  for (const ConvRuleSet rule_set : {ConvRuleSet::full, ConvRuleSet::defaults}) {
    AmdConvQuery one = query;
    one.rule_set = rule_set;
    enumerate_amd_conv(one, [&](const KernelConfig& candidate) { return !(found = found || candidate == config); });
  }
  out.listed.push_back(
      {"kernel_is_in_the_tables", "the rule tables hold the kernel for this direction, tile and data type", found,
       found ? "found in the full or the default rule set" : "in neither the full nor the default rule set"});
  find_nearest(out, [&](ConfigSink sink) {
    enumerate_amd_conv(query, [&](const KernelConfig& candidate) {
      return first_refusal(amd_conv_sound_rules(), AmdConvSubject{candidate, chip, *spec, *gemm}) != nullptr ||
             sink(candidate);
    });
  });
  return out;
}

}  // namespace tilesmith
