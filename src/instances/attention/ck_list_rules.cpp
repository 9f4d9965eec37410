// Why an AMD attention config is or is not in its chip's list: the data type, the features, the tile. The tile and
// feature rules are those the enumeration itself applies.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/lasting.hpp"
#include "instances/attention/ck_features.hpp"
#include "instances/attention/ck_tiles.hpp"
#include "vocabulary/field_table.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;
using Subject = AmdAttentionSubject;

HeadDims dims_of(const Subject& s) {
  return {s.signature().head_dim_qk, s.signature().head_dim_v};
}

std::vector<HeadDims> listed_head_dims(const Subject& s) {
  return amd_attention_head_dims(s.chip, s.spec, s.signature().family, s.signature().data_type);
}

std::vector<AttentionFeature> features_of_receipt(const Subject& s, int receipt) {
  const AmdAttentionQuery query{.chip = s.chip, .spec = s.spec, .receipt = receipt};
  return amd_attention_features(query, s.signature().family, s.signature().data_type, dims_of(s), s.algorithm().tag);
}

bool same(const AttentionFeature& a, const AttentionFeature& b) {
  AttentionSignature left = a.signature, right = b.signature;
  left.mode = right.mode = SequenceMode::batch;  // the mode is no part of a product
  return left == right && a.pipeline == b.pipeline && a.pad == b.pad;
}

bool features_are_built(const Subject& s) {
  const AttentionFeature wanted = feature_of(s.config);
  return std::ranges::any_of(s.spec.known_receipts, [&](int receipt) {
    const auto features = features_of_receipt(s, receipt);
    return std::ranges::any_of(features, [&](const AttentionFeature& feature) { return same(feature, wanted); });
  });
}

std::string feature_figures(const Subject& s) {
  const AttentionFeature wanted = feature_of(s.config);
  std::vector<std::string> best;
  bool found = false;
  for (const int receipt : s.spec.known_receipts)
    for (const AttentionFeature& feature : features_of_receipt(s, receipt)) {
      std::vector<std::string> differ;
      for (const FieldInfo& field : field_table<AttentionFeature>()) {
        const std::int64_t have = read_field(field, &wanted), built = read_field(field, &feature);
        if (field.name == "mode" || have == built) continue;
        if (field.kind == FieldKind::enumeration)
          differ.push_back(fmt::format("{} {} where {} is built", field.name,
                                       field.value_names[static_cast<std::size_t>(have)],
                                       field.value_names[static_cast<std::size_t>(built)]));
        else
          differ.push_back(fmt::format("{} {} where {} is built", field.name, have, built));
      }
      if (!found || differ.size() < best.size()) best = differ;
      found = true;
    }
  if (!found) return "the family has no features for this data type and these head dims";
  return best.empty() ? "all features agree with a product of the family" : fmt::format("{}", fmt::join(best, ", "));
}

AmdAttentionQuery plain_query(const Subject& s) {
  return {.chip = s.chip, .spec = s.spec};
}

std::vector<AttentionTile> fixed_tiles(const Subject& s) {
  if (s.signature().family != F::bwd_dq_dk_dv)
    return amd_attention_tiles(plain_query(s), s.signature().family, s.signature().data_type, dims_of(s),
                               s.algorithm().pipeline);
  std::vector<AttentionTile> tiles = amd_backward_tiles(s.spec, dims_of(s), true);
  std::ranges::copy(amd_backward_tiles(s.spec, dims_of(s), false), std::back_inserter(tiles));
  return tiles;
}

constexpr Rule<Subject> kTypeRules[] = {
    {"data_type_is_listed", "the chip builds attention for the data type",
     [](const Subject& s) {
       const auto& types = s.chip.attention->data_types;
       return std::ranges::find(types, s.signature().data_type) != types.end();
     },
     [](const Subject& s) {
       std::vector<std::string_view> types;
       for (const DataType type : s.chip.attention->data_types) types.push_back(name_of(type));
       return fmt::format("data_type {}; {} builds {}", name_of(s.signature().data_type), s.chip.arch.text(),
                          fmt::join(types, " "));
     }},
    {"head_dims_are_listed", "the family builds the pair of head dims for the data type",
     [](const Subject& s) {
       const auto dims = listed_head_dims(s);
       return std::ranges::find(dims, dims_of(s)) != dims.end();
     },
     [](const Subject& s) {
       std::vector<std::string> listed;
       for (const HeadDims dims : listed_head_dims(s)) listed.push_back(fmt::format("{}x{}", dims[0], dims[1]));
       return fmt::format("{}x{} of {}", s.signature().head_dim_qk, s.signature().head_dim_v, fmt::join(listed, " "));
     }},
    {"features_are_built",
     "a product of the family holds this combination of pipeline, traits and padding, for some receipt",
     features_are_built, feature_figures},
};

constexpr Rule<Subject> kFixedTileRules[] = {
    {"tile_is_listed", "the family has fixed tiles, and this is one of them",
     [](const Subject& s) {
       return std::ranges::any_of(fixed_tiles(s), [&](const AttentionTile& tile) {
         return tile.tile == s.algorithm().tile && tile.tag == s.algorithm().tag &&
                (!tile.batch_only || s.signature().mode == SequenceMode::batch);
       });
     },
     [](const Subject& s) {
       std::vector<std::string> tiles;
       for (const AttentionTile& tile : fixed_tiles(s))
         tiles.push_back(fmt::format(
             "{}{}{}{}", fmt::join(std::span(tile.tile).first(6), "x"), tile.tag == TileTag::none ? "" : ".",
             tile.tag == TileTag::none ? "" : name_of(tile.tag), tile.batch_only ? " (batch only)" : ""));
       return fmt::format("{}.{} of {}", fmt::join(std::span(s.algorithm().tile).first(6), "x"),
                          name_of(s.algorithm().tag), fmt::join(tiles, ", "));
     }},
};

std::vector<Rule<Subject>> rules_for(F family) {
  std::vector<Rule<Subject>> rules(std::begin(kTypeRules), std::end(kTypeRules));
  const auto add = [&rules](std::span<const Rule<Subject>> more) {
    rules.insert(rules.end(), more.begin(), more.end());
  };
  add(amd_attention_feature_rules());
  switch (family) {
    case F::fwd:
      add(amd_candidate_tile_rules());
      add(amd_forward_tile_rules());
      break;
    case F::fwd_splitkv:
    case F::fwd_pagedkv:
    case F::batch_prefill:
      add(amd_candidate_tile_rules());
      add(amd_splitkv_tile_rules());
      break;
    default:
      add(kFixedTileRules);
      break;
  }
  return rules;
}

}  // namespace

std::vector<HeadDims> amd_attention_head_dims(const AmdChip& chip, const AmdAttentionSpec& spec, AttentionFamily family,
                                              DataType type) {
  if (family == F::bwd_dq_dk_dv) {
    std::vector<HeadDims> out;
    for (const auto& tile : spec.backward_tiles)
      if (std::ranges::find(out, tile.head_dims) == out.end()) out.push_back(tile.head_dims);
    return out;
  }
  const bool by_product = family == F::fwd_splitkv_combine || family == F::bwd_dot_do_o || family == F::bwd_convert_dq;
  if (by_product) return amd_product_head_dims({.chip = chip, .spec = spec}, family, type);
  const AmdAttentionSpec::TypeProperties* facts = spec.facts_of(type);
  return facts == nullptr ? std::vector<HeadDims>{} : facts->head_dims;
}

std::span<const Rule<AmdAttentionSubject>> amd_attention_list_rules(AttentionFamily family) {
  static const auto& rules = lasting([] {
    std::array<std::vector<Rule<Subject>>, enum_size<F>()> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = rules_for(static_cast<F>(i));
    return all;
  }());
  return rules[static_cast<std::size_t>(family)];
}

}  // namespace tilesmith
