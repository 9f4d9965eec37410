// Listings of AMD GEMM instances.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.hpp"
#include "catalog/listing_plan.hpp"
#include "instances/gemm/ck.hpp"

namespace tilesmith {
namespace {

/// Families that have a sweep or a place in a preselected set.
Result<std::vector<GemmFamily>> parse_families(const AmdGemmSpec& spec, const std::string& asked) {
  std::vector<GemmFamily> listed;
  std::vector<std::string> names;
  for (const auto& entry : EnumTable<GemmFamily>::kNames) {
    if (spec.families[static_cast<std::size_t>(entry.value)].data_types.empty()) continue;
    listed.push_back(entry.value);
    names.emplace_back(entry.name);
  }
  if (asked.empty()) return listed;
  TS_ASSIGN(const GemmFamily family, parse_enum<GemmFamily>(asked));
  if (std::ranges::find(listed, family) == listed.end())
    return fail(ErrorCode::unsupported, fmt::format("Composable Kernel's dispatcher builds no {} GEMM", asked),
                fmt::format("it builds {}", fmt::join(names, ", ")));
  return std::vector{family};
}

}  // namespace

Result<ListingPlan> plan_amd_gemm(const AmdChip& chip, const ListRequest& request) {
  const auto& loaded = amd_gemm_spec();
  if (!loaded) return std::unexpected(loaded.error());
  const AmdGemmSpec& spec = *loaded;
  AmdGemmQuery query{.chip = chip, .spec = spec, .mode = request.mode, .layout = request.layout};
  TS_ASSIGN(query.data_types, parse_data_types(request.data_types));
  TS_ASSIGN(const std::vector<GemmFamily> families, parse_families(spec, request.variant));
  if (!request.rule_set.empty() && request.rule_set != "default") {
    std::vector<std::string> known;
    for (const auto& set : spec.preselected) known.push_back(set.name);
    if (std::ranges::find(known, request.rule_set) == known.end())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("\"{}\" is no preselected set of GEMM kernels", request.rule_set),
                  did_you_mean(request.rule_set, known));
    query.preselected = request.rule_set;
  }
  const bool preselected = request.mode == EnumerationMode::tables || !query.preselected.empty();
  const bool built = std::ranges::any_of(families, [&](GemmFamily family) {
    const auto& layouts = spec.families[static_cast<std::size_t>(family)].layouts;
    return std::ranges::find(layouts, request.layout) != layouts.end();
  });
  if (!built && !preselected) {
    const auto& layouts = spec.families[static_cast<std::size_t>(families.front())].layouts;
    return fail(ErrorCode::invalid_argument, fmt::format("layout \"{}\" is not built", request.layout.substr(0, 64)),
                fmt::format("{}", fmt::join(layouts, ", ")));
  }
  ListingPlan plan;
  plan.enumerate = [query, families](ConfigSink sink) {
    bool more = true;
    const auto forward = [&](const KernelConfig& config) { return more = sink(config); };
    for (const GemmFamily family : families)
      if (more) enumerate_amd_gemm(query, family, forward);
  };
  if (request.mode == EnumerationMode::sound)
    plan.refusal = [&chip, &spec](const KernelConfig& config) -> std::string_view {
      const AmdGemmSubject subject{config, chip, spec};
      for (const auto rules : {amd_gemm_rules(), amd_gemm_sound_rules()})
        if (const auto* rule = first_refusal(rules, subject)) return rule->name;
      return {};
    };
  return plan;
}

}  // namespace tilesmith
