#include "instances/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/nearest.hpp"
#include "spec/amd/ck_reading.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;

constexpr std::uint16_t bit(F family) {
  return static_cast<std::uint16_t>(1u << static_cast<unsigned>(family));
}
template <class... Families>
constexpr std::uint16_t bits(Families... families) {
  return static_cast<std::uint16_t>((bit(families) | ...));
}

/// Which families upstream filters by a trait.
struct Trait {
  std::string_view key;
  std::string_view field;
  std::uint16_t families;
};
constexpr Trait kTraits[] = {
    {"pipeline", "pipeline", bits(F::fwd)},
    {"mask", "mask", bits(F::fwd, F::fwd_splitkv, F::fwd_pagedkv, F::batch_prefill, F::bwd_dq_dk_dv)},
    {"bias", "bias", bits(F::fwd, F::fwd_splitkv, F::fwd_pagedkv, F::batch_prefill, F::bwd_dq_dk_dv)},
    {"mode", "mode",
     bits(F::fwd, F::fwd_splitkv, F::fwd_splitkv_combine, F::fwd_pagedkv, F::bwd_dot_do_o, F::bwd_dq_dk_dv,
          F::bwd_convert_dq)},
    {"lse", "lse", bits(F::fwd)},
    {"dropout", "dropout", bits(F::fwd)},
    {"logits", "soft_cap", bits(F::fwd, F::fwd_splitkv)},
    {"sink", "sink", bits(F::fwd, F::fwd_splitkv)},
    {"paged_kv", "paged_kv", bits(F::fwd_splitkv)},
};

const Trait* find_trait(std::string_view key) {
  const auto* found = std::ranges::find(kTraits, key, &Trait::key);
  return found == std::end(kTraits) ? nullptr : found;
}

Status read_block_per_cu(const JsonReader& values, AttentionSweep& sweep) {
  sweep.block_per_cu.clear();
  TS_ASSIGN(const auto items, values.elements());
  for (const JsonReader& item : items) {
    TS_ASSIGN(const auto value, item.integer<std::int16_t>(-1, 64));
    // Two equal entries would list every kernel twice under one name.
    if (std::ranges::find(sweep.block_per_cu, value) == sweep.block_per_cu.end()) sweep.block_per_cu.push_back(value);
  }
  return {};
}

Status read_trait(const std::string& key, const JsonReader& entry, AttentionSweep& sweep) {
  TS_TRY(entry.only({"values"}));
  const JsonReader values = entry.at("values");
  TS_ASSIGN(const auto items, values.elements());
  if (items.empty()) return values.refuse("at least one value, or no such key to allow all");
  if (key == "block_per_cu") return read_block_per_cu(values, sweep);
  if (key == "data_type") {
    TS_ASSIGN(sweep.data_types, read_enums<DataType>(values));
    return {};
  }
  const Trait* trait = find_trait(key);
  if (trait == nullptr) {
    std::vector<std::string> known = {"block_per_cu", "data_type"};
    for (const Trait& each : kTraits) known.emplace_back(each.key);
    return fail(ErrorCode::parse, fmt::format("{} is not a known trait", entry.place()), did_you_mean(key, known));
  }
  TS_ASSIGN(FieldChoice choice, read_choice(trait->field, values));
  sweep.allowed.push_back({trait->key, std::move(choice)});
  return {};
}

}  // namespace

const FieldChoice* AttentionSweep::allowed_of(AttentionFamily family, std::string_view field) const {
  for (const Allowed& entry : allowed)
    if (entry.choice.field->name == field && (find_trait(entry.trait)->families & bit(family)) != 0)
      return &entry.choice;
  return nullptr;
}

bool AttentionSweep::allows(AttentionFamily family, const AttentionFeature& feature) const {
  return std::ranges::all_of(allowed, [&](const Allowed& entry) {
    return (find_trait(entry.trait)->families & bit(family)) == 0 || entry.choice.allows(feature);
  });
}

Result<AttentionSweep> parse_attention_sweep(std::string_view file, std::string_view text) {
  TS_ASSIGN(const auto document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"variant", "trait_config"}));
  AttentionSweep sweep;
  if (root.has("variant")) {
    TS_ASSIGN(sweep.variant, root.at("variant").enumerator<AttentionVariant>());
  }
  if (root.has("trait_config")) {
    TS_ASSIGN(const auto traits, root.at("trait_config").members());
    for (const auto& [key, entry] : traits) TS_TRY(read_trait(key, entry, sweep));
  }
  return sweep;
}

Result<AttentionSweep> load_attention_sweep(const std::string& path) {
  constexpr std::uint64_t kMaxBytes = 16u << 20;
  const auto text = read_file(path, kMaxBytes);
  if (!text) return std::unexpected(text.error().in("the sweep file"));
  return parse_attention_sweep(path, *text);
}

}  // namespace tilesmith
