// Listings of AMD attention instances: what the words of a request mean to the enumeration.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/nearest.hpp"
#include "catalog/listing_plan.hpp"
#include "instances/attention/ck.hpp"
#include "instances/attention/ck_features.hpp"

namespace tilesmith {
namespace {

/// A receipt's number, and the profile when it was named.
struct Receipt {
  int number = 0;
  const AmdAttentionSpec::Profile* profile = nullptr;
};
Result<Receipt> parse_receipt(const AmdAttentionSpec& spec, const std::string& text) {
  Receipt receipt;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), receipt.number);
  if (code == std::errc{} && end == text.data() + text.size() && receipt.number >= 0 && receipt.number <= 9999)
    return receipt;
  receipt.profile = spec.profile(text);
  if (receipt.profile != nullptr) {
    receipt.number = receipt.profile->receipt;
    return receipt;
  }
  std::vector<std::string> known;
  for (const auto& profile : spec.profiles) known.push_back(profile.name);
  return fail(ErrorCode::invalid_argument,
              fmt::format("\"{}\" is neither a receipt's number nor a profile", text.substr(0, 64)),
              did_you_mean(text, known));
}

Result<std::vector<AttentionVariant>> parse_variants(const std::string& asked, const AttentionSweep& sweep) {
  std::optional<AttentionVariant> one = sweep.variant;
  if (!asked.empty()) {
    TS_ASSIGN(const AttentionVariant variant, parse_enum<AttentionVariant>(asked));
    if (one && *one != variant)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("variant {} is asked for, but the sweep file is for {}", asked, name_of(*one)));
    one = variant;
  }
  if (one) return std::vector{*one};
  std::vector<AttentionVariant> all;
  for (const auto& entry : EnumTable<AttentionVariant>::kNames) all.push_back(entry.value);
  return all;
}

}  // namespace

Result<ListingPlan> plan_amd_attention(const AmdChip& chip, const ListRequest& request) {
  const auto& loaded = amd_attention_spec();
  if (!loaded) return std::unexpected(loaded.error());
  const AmdAttentionSpec& spec = *loaded;
  if (!chip.attention) {
    std::vector<std::string> able;
    for (const AmdChip& each : amd_chips().value())
      if (each.attention) able.emplace_back(each.arch.text());
    return fail(ErrorCode::unsupported, fmt::format("Composable Kernel builds no attention for {}", chip.arch.text()),
                fmt::format("it does for {}", fmt::join(able, ", ")));
  }
  AttentionSweep sweep;
  if (!request.sweep_file.empty()) {
    TS_ASSIGN(sweep, load_attention_sweep(request.sweep_file));
  }
  if (!request.data_types.empty()) {
    TS_ASSIGN(std::vector<DataType> types, parse_data_types(request.data_types));
    if (sweep.data_types)
      std::erase_if(
          types, [&](DataType type) { return std::ranges::find(*sweep.data_types, type) == sweep.data_types->end(); });
    sweep.data_types = std::move(types);
  }
  TS_ASSIGN(const Receipt receipt, parse_receipt(spec, request.receipt));
  TS_ASSIGN(const std::vector<AttentionVariant> variants, parse_variants(request.variant, sweep));
  std::vector<HeadDims> head_dims;
  for (const auto& [qk, v] : request.head_dims) {
    if (qk < 1 || qk > 65535 || v < 1 || v > 65535)
      return fail(ErrorCode::invalid_argument, fmt::format("head dims {}x{}", qk, v), "figures from 1 to 65535");
    head_dims.push_back({static_cast<std::uint16_t>(qk), static_cast<std::uint16_t>(v)});
  }
  const AmdAttentionQuery query{.chip = chip,
                                .spec = spec,
                                .mode = request.mode,
                                .receipt = receipt.number,
                                .sweep = std::move(sweep),
                                .head_dims = std::move(head_dims)};
  ListingPlan plan;
  plan.enumerate = [query, variants](ConfigSink sink) {
    bool more = true;
    const auto forward = [&](const KernelConfig& config) { return more = sink(config); };
    for (const AttentionVariant variant : variants)
      if (more) enumerate_amd_attention(query, variant, forward);
  };
  if (request.mode == EnumerationMode::sound)
    plan.refusal = [&chip, &spec](const KernelConfig& config) -> std::string_view {
      for (const auto rules : {amd_attention_sound_rules(), amd_attention_source_rules()})
        if (const auto* rule = first_refusal(rules, AmdAttentionSubject{config, chip, spec})) return rule->name;
      return {};
    };
  if (receipt.profile != nullptr)
    plan.in_profile = [profile = receipt.profile](const KernelConfig& config) {
      const AttentionFeature feature = feature_of(config);
      return std::ranges::any_of(profile->keep, [&](const Condition& condition) { return holds(condition, feature); });
    };
  return plan;
}

}  // namespace tilesmith
