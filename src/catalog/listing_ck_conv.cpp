// Listings of AMD grouped-convolution instances.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.hpp"
#include "catalog/listing_plan.hpp"
#include "instances/conv/ck.hpp"

namespace tilesmith {

Result<ListingPlan> plan_amd_conv(const AmdChip& chip, const ListRequest& request) {
  const auto& loaded = amd_conv_spec();
  if (!loaded) return std::unexpected(loaded.error());
  const auto& gemm = amd_gemm_spec();
  if (!gemm) return std::unexpected(gemm.error());
  const AmdConvSpec& spec = *loaded;
  if (request.mode == EnumerationMode::exhaustive || request.mode == EnumerationMode::tables)
    return fail(ErrorCode::unsupported, fmt::format("convolution kernels have no mode {}", name_of(request.mode)),
                "rules or sound, with --rule-set full, full-tests, tiny or default");
  AmdConvQuery query{.chip = chip, .spec = spec, .gemm = *gemm};
  if (!request.rule_set.empty()) {
    TS_ASSIGN(query.rule_set, parse_enum<ConvRuleSet>(request.rule_set));
  }
  TS_ASSIGN(query.data_types, parse_data_types(request.data_types));
  for (const DataType type : query.data_types)
    if (std::ranges::find(spec.data_types, type) == spec.data_types.end())
      return fail(ErrorCode::unsupported, fmt::format("convolution kernels are not built for {}", name_of(type)),
                  "fp16, bf16 or fp32");
  bool depthwise_only = false;
  if (request.variant == "depthwise") {
    depthwise_only = true;
    query.directions = {ConvDirection::forward};
  } else if (!request.variant.empty()) {
    TS_ASSIGN(const ConvDirection direction, parse_enum<ConvDirection>(request.variant));
    query.directions = {direction};
  }
  for (const int dims : request.spatial_dims)
    if (dims < 1 || dims > 3)
      return fail(ErrorCode::invalid_argument, fmt::format("{} spatial dimensions", dims), "1, 2 or 3");
  query.spatial_dims = request.spatial_dims;
  ListingPlan plan;
  plan.enumerate = [query, depthwise_only](ConfigSink sink) {
    enumerate_amd_conv(query, [&](const KernelConfig& config) {
      return (depthwise_only && !std::get<ConvSignature>(config.signature).depthwise) || sink(config);
    });
  };
  if (request.mode == EnumerationMode::sound)
    plan.refusal = [&chip, &spec, &gemm = *gemm](const KernelConfig& config) -> std::string_view {
      const auto* rule = first_refusal(amd_conv_sound_rules(), AmdConvSubject{config, chip, spec, gemm});
      return rule == nullptr ? std::string_view() : rule->name;
    };
  return plan;
}

}  // namespace tilesmith
