#include <fmt/format.h>

#include <algorithm>

#include "catalog/explain_backend.hpp"
#include "instances/attention/ck.hpp"
#include "instances/attention/ck_features.hpp"

namespace tilesmith {
namespace {

std::vector<std::string> receipts_of(const AmdAttentionSpec& spec, const AmdChip& chip, const KernelConfig& config) {
  std::vector<std::string> out;
  const AttentionSignature& s = config.attention();
  for (const int receipt : spec.known_receipts) {
    const AmdAttentionQuery query{.chip = chip, .spec = spec, .receipt = receipt};
    const auto features =
        amd_attention_features(query, s.family, s.data_type, {s.head_dim_qk, s.head_dim_v}, config.algorithm.tag);
    const bool has = std::ranges::any_of(features, [&](AttentionFeature feature) {
      feature.signature.mode = s.mode;
      return feature.signature == s && feature.pipeline == config.algorithm.pipeline &&
             feature.pad == config.algorithm.pad;
    });
    if (!has) continue;
    std::string text = fmt::format("{}", receipt);
    for (const auto& profile : spec.profiles)
      if (profile.receipt == receipt && profile.name != "all") text += fmt::format(" ({})", profile.name);
    out.push_back(std::move(text));
  }
  return out;
}

/// A receipt whose list has the data type at these head dims, the widest first: neighbours are looked for in its list.
int receipt_with_neighbours(const AmdAttentionSpec& spec, const AmdChip& chip, const KernelConfig& config) {
  constexpr int kWidest = 1;
  const AttentionSignature& s = config.attention();
  std::vector<int> receipts = {kWidest};
  receipts.insert(receipts.end(), spec.known_receipts.begin(), spec.known_receipts.end());
  for (const int receipt : receipts) {
    const AmdAttentionQuery query{.chip = chip, .spec = spec, .receipt = receipt};
    if (!amd_attention_features(query, s.family, s.data_type, {s.head_dim_qk, s.head_dim_v}, config.algorithm.tag)
             .empty())
      return receipt;
  }
  return kWidest;
}

}  // namespace

Result<Explanation> explain_amd_attention(const AmdChip& chip, KernelConfig config) {
  const auto& spec = amd_attention_spec();
  if (!spec) return std::unexpected(spec.error());
  if (!chip.attention)
    return fail(ErrorCode::unsupported, fmt::format("Composable Kernel builds no attention for {}", chip.arch.text()));
  config.arch = chip.arch;
  complete_amd_attention(*spec, config);
  Explanation out;
  out.config = config;
  const AmdAttentionSubject subject{config, chip, *spec};
  out.listed = verdicts(amd_attention_list_rules(config.attention().family), subject);
  out.sound = verdicts(amd_attention_sound_rules(), subject);
  std::ranges::move(verdicts(amd_attention_source_rules(), subject), std::back_inserter(out.sound));
  if (out.is_listed()) out.receipts = receipts_of(*spec, chip, config);

  // The neighbours that matter share the family; the data type and head dims only give way when nothing else is built.
  const AmdAttentionQuery query{.chip = chip, .spec = *spec, .receipt = receipt_with_neighbours(*spec, chip, config)};
  find_nearest(out, [&](ConfigSink sink) {
    enumerate_amd_attention(query, variant_of(config.attention().family), [&](const KernelConfig& candidate) {
      if (candidate.attention().family != config.attention().family) return true;
      const AmdAttentionSubject each{candidate, chip, *spec};
      return first_refusal(amd_attention_sound_rules(), each) != nullptr ||
             first_refusal(amd_attention_source_rules(), each) != nullptr || sink(candidate);
    });
  });
  return out;
}

}  // namespace tilesmith
