#include "spec/amd/ck_attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/lasting.hpp"
#include "base/nearest.hpp"
#include "spec/amd/ck_reading.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

Result<std::int64_t> read_field_value(const FieldInfo& field, const JsonReader& from) {
  switch (field.kind) {
    case FieldKind::flag: {
      TS_ASSIGN(const bool value, from.boolean());
      return value ? 1 : 0;
    }
    case FieldKind::enumeration: {
      TS_ASSIGN(const std::string text, from.string());
      const std::int64_t value = field.value_of(text);
      if (value >= 0) return value;
      const std::vector<std::string> known(field.value_names.begin(), field.value_names.end());
      return from.refuse(fmt::format("a {}; {}", field.what, did_you_mean(text, known)));
    }
    case FieldKind::integer:
      return from.integer<std::int64_t>(field.is_signed ? -(1 << (8 * field.size - 1)) : 0,
                                        (1 << (8 * field.size - (field.is_signed ? 1 : 0))) - 1);
    case FieldKind::array:
    case FieldKind::list:
      break;
  }
  return from.refuse("a value of a field that is neither array nor list");
}

Result<std::vector<HeadDims>> read_head_dims(const JsonReader& parent, std::string_view field) {
  if (!parent.has(field)) return std::vector<HeadDims>{};
  return read_shapes<2>(parent.at(field));
}

Result<std::array<std::uint8_t, 4>> read_pad(const JsonReader& from) {
  TS_ASSIGN(const std::string text, from.string());
  std::array<std::uint8_t, 4> pad{};
  if (text.size() != pad.size() || text.find_first_not_of("018") != std::string::npos)
    return from.refuse("four digits, each 0, 1 or 8");
  for (std::size_t i = 0; i < pad.size(); ++i) pad[i] = static_cast<std::uint8_t>(text[i] - '0');
  return pad;
}

Result<AttentionProduct::Kernel> read_kernel(const JsonReader& from) {
  TS_TRY(from.only({"head_dims", "head_dims_not", "receipts", "when", "pipeline", "pads"}));
  AttentionProduct::Kernel kernel;
  TS_ASSIGN(kernel.head_dims, read_head_dims(from, "head_dims"));
  TS_ASSIGN(kernel.head_dims_not, read_head_dims(from, "head_dims_not"));
  if (from.has("receipts")) {
    TS_ASSIGN(kernel.receipts, from.at("receipts").integers(0, 9999));
  }
  if (from.has("when")) {
    TS_ASSIGN(kernel.when, read_condition(from.at("when")));
  }
  TS_ASSIGN(kernel.pipeline, from.at("pipeline").enumerator<Pipeline>());
  TS_ASSIGN(const auto pads, from.at("pads").elements());
  for (const JsonReader& pad : pads) {
    TS_ASSIGN(const auto digits, read_pad(pad));
    kernel.pads.push_back(digits);
  }
  return kernel;
}

Result<AttentionProduct> read_product(const JsonReader& from) {
  TS_TRY(from.only({"data_types", "head_dims", "tags", "needs", "fixed", "axes", "kernels"}));
  AttentionProduct product;
  TS_ASSIGN(product.data_types, read_enums<DataType>(from.at("data_types")));
  TS_ASSIGN(product.head_dims, read_head_dims(from, "head_dims"));
  if (from.has("tags")) {
    TS_ASSIGN(product.tags, read_enums<TileTag>(from.at("tags")));
  }
  if (from.has("needs")) {
    TS_ASSIGN(product.needs, from.at("needs").enumerator<AttentionProduct::Need>());
  }
  if (from.has("fixed")) {
    TS_ASSIGN(const auto members, from.at("fixed").members());
    for (const auto& [name, value] : members) {
      const FieldInfo* field = find_field<AttentionFeature>(name);
      if (field == nullptr) return value.refuse("the value of a field of an attention signature");
      TS_ASSIGN(const std::int64_t number, read_field_value(*field, value));
      product.fixed.push_back({field, {number}});
    }
  }
  TS_ASSIGN(const auto axes, from.at("axes").elements());
  for (const JsonReader& axis : axes) {
    TS_TRY(axis.only({"field", "values"}));
    TS_ASSIGN(const std::string field, axis.at("field").string());
    TS_ASSIGN(FieldChoice choice, read_choice(field, axis.at("values")));
    product.axes.push_back(std::move(choice));
  }
  TS_ASSIGN(const auto kernels, from.at("kernels").elements());
  for (const JsonReader& item : kernels) {
    TS_ASSIGN(AttentionProduct::Kernel kernel, read_kernel(item));
    product.kernels.push_back(std::move(kernel));
  }
  return product;
}

Status read_families(const JsonReader& from, FamilyProducts& into) {
  TS_ASSIGN(const auto members, from.members());
  for (const auto& [name, value] : members) {
    auto family = parse_enum<AttentionFamily>(name);
    if (!family) return std::unexpected(family.error().in(value.place()));
    auto& products = into[static_cast<std::size_t>(*family)];
    products.clear();
    TS_ASSIGN(const auto items, value.elements());
    for (const JsonReader& item : items) {
      TS_ASSIGN(AttentionProduct product, read_product(item));
      products.push_back(std::move(product));
    }
  }
  return {};
}

Status read_types(const JsonReader& from, AmdAttentionSpec& spec) {
  TS_ASSIGN(const auto members, from.members());
  for (const auto& [name, value] : members) {
    TS_TRY(value.only({"bytes", "k1_is_k0", "head_dims", "warps", "splitkv_warp"}));
    AmdAttentionSpec::TypeProperties& facts = spec.types.emplace_back();
    auto type = parse_enum<DataType>(name);
    if (!type) return std::unexpected(type.error().in(value.place()));
    facts.type = *type;
    TS_ASSIGN(facts.bytes, value.at("bytes").integer<int>(1, 8));
    TS_ASSIGN(facts.k1_is_k0, value.at("k1_is_k0").boolean());
    TS_ASSIGN(facts.head_dims, read_shapes<2>(value.at("head_dims")));
    TS_ASSIGN(facts.warps, read_shapes<3>(value.at("warps")));
    if (facts.warps.empty()) return value.at("warps").refuse("at least one warp tile");
    TS_ASSIGN(facts.splitkv_warp, read_shape<3>(value.at("splitkv_warp")));
    for (const Shape3& warp : facts.warps)
      if (std::ranges::find(warp, 0) != warp.end()) return value.at("warps").refuse("figures above 0");
    if (std::ranges::find(facts.splitkv_warp, 0) != facts.splitkv_warp.end())
      return value.at("splitkv_warp").refuse("figures above 0");
  }
  return {};
}

Status read_tiles(const JsonReader& from, AmdAttentionSpec& spec) {
  TS_TRY(from.only(
      {"default", "default_wave", "default_warp", "combine", "appendkv", "bwd_1d", "bwd", "bwd_waves", "bwd_warp"}));
  TS_ASSIGN(spec.default_tile, read_shape<6>(from.at("default")));
  TS_ASSIGN(spec.default_wave, read_shape<9>(from.at("default_wave")));
  TS_ASSIGN(spec.default_warp, read_shape<9>(from.at("default_warp")));
  const auto figure = [](const JsonReader& at) { return at.integer<std::uint16_t>(1, 4096); };
  TS_ASSIGN(spec.combine_m0, figure(from.at("combine").at("m0")));
  TS_ASSIGN(spec.combine_k0, figure(from.at("combine").at("k0")));
  TS_ASSIGN(spec.combine_n1, figure(from.at("combine").at("n1")));
  TS_ASSIGN(spec.appendkv_m0, figure(from.at("appendkv").at("m0")));
  TS_ASSIGN(spec.appendkv_n0, figure(from.at("appendkv").at("n0")));
  TS_ASSIGN(spec.backward_1d_m0, figure(from.at("bwd_1d").at("m0")));
  TS_ASSIGN(const auto tiles, from.at("bwd").elements());
  for (const JsonReader& item : tiles) {
    TS_TRY(item.only({"head_dims", "tag", "batch_only", "tile"}));
    auto& tile = spec.backward_tiles.emplace_back();
    TS_ASSIGN(tile.head_dims, read_shape<2>(item.at("head_dims")));
    TS_ASSIGN(tile.tag, item.at("tag").enumerator<TileTag>());
    TS_ASSIGN(tile.tile, read_shape<9>(item.at("tile")));
    if (item.has("batch_only")) {
      TS_ASSIGN(tile.batch_only, item.at("batch_only").boolean());
    }
  }
  TS_ASSIGN(const auto waves, from.at("bwd_waves").elements());
  for (const JsonReader& item : waves) {
    TS_TRY(item.only({"m0", "n0", "k0", "trload", "wave", "warp_k1"}));
    auto& row = spec.backward_waves.emplace_back();
    TS_ASSIGN(row.tile[0], figure(item.at("m0")));
    TS_ASSIGN(row.tile[1], figure(item.at("n0")));
    TS_ASSIGN(row.tile[2], figure(item.at("k0")));
    TS_ASSIGN(row.trload, item.at("trload").boolean());
    TS_ASSIGN(row.wave, read_shape<9>(item.at("wave")));
    TS_ASSIGN(row.warp_k1, figure(item.at("warp_k1")));
  }
  const JsonReader warp = from.at("bwd_warp");
  TS_TRY(warp.only({"mn", "k0", "k1", "k2"}));
  TS_ASSIGN(spec.backward_warp_mn, figure(warp.at("mn")));
  TS_ASSIGN(spec.backward_warp_k0, figure(warp.at("k0")));
  TS_ASSIGN(spec.backward_warp_k1, figure(warp.at("k1")));
  TS_ASSIGN(spec.backward_warp_k2, figure(warp.at("k2")));
  return {};
}

Status read_receipts(const JsonReader& from, AmdAttentionSpec& spec) {
  TS_TRY(from.only({"known", "filters"}));
  TS_ASSIGN(spec.known_receipts, from.at("known").integers(0, 9999));
  TS_ASSIGN(const auto filters, from.at("filters").elements());
  for (const JsonReader& item : filters) {
    TS_TRY(item.only({"families", "rows"}));
    auto& filter = spec.receipt_filters.emplace_back();
    TS_ASSIGN(filter.families, read_enums<AttentionFamily>(item.at("families")));
    TS_ASSIGN(const auto rows, item.at("rows").elements());
    for (const JsonReader& row : rows) {
      TS_TRY(row.only({"receipts", "keep"}));
      auto& into = filter.rows.emplace_back();
      TS_ASSIGN(into.receipts, row.at("receipts").integers(0, 9999));
      TS_ASSIGN(into.keep, read_condition(row.at("keep")));
    }
  }
  return {};
}

Status read_profiles(const JsonReader& from, AmdAttentionSpec& spec) {
  TS_ASSIGN(const auto items, from.elements());
  for (const JsonReader& item : items) {
    TS_TRY(item.only({"name", "receipt", "keep"}));
    auto& profile = spec.profiles.emplace_back();
    TS_ASSIGN(profile.name, item.at("name").string());
    TS_ASSIGN(profile.receipt, item.at("receipt").integer<int>(0, 9999));
    TS_ASSIGN(const auto conditions, item.at("keep").elements());
    for (const JsonReader& condition : conditions) {
      TS_ASSIGN(Condition keep, read_condition(condition));
      profile.keep.push_back(std::move(keep));
    }
  }
  return {};
}

Status read_tables(const JsonReader& from, AmdAttentionSpec& spec) {
  TS_TRY(from.only({"about", "isa", "tiles", "families", "data_types"}));
  TS_ASSIGN(spec.tables.isa, from.at("isa").enumerator<AmdIsa>());
  TS_ASSIGN(const auto families, from.at("tiles").members());
  for (const auto& [name, value] : families) {
    auto family = parse_enum<AttentionFamily>(name);
    if (!family) return std::unexpected(family.error().in(value.place()));
    TS_ASSIGN(const auto tables, value.elements());
    for (const JsonReader& item : tables) {
      TS_TRY(item.only({"data_types", "needs", "rows"}));
      auto& table = spec.tables.tiles[static_cast<std::size_t>(*family)].emplace_back();
      TS_ASSIGN(table.data_types, read_enums<DataType>(item.at("data_types")));
      if (item.has("needs")) {
        TS_ASSIGN(table.needs, item.at("needs").enumerator<AttentionProduct::Need>());
      }
      TS_ASSIGN(const auto rows, item.at("rows").elements());
      for (const JsonReader& row : rows) {
        TS_TRY(row.only({"head_dims", "tiles"}));
        auto& into = table.rows.emplace_back();
        TS_ASSIGN(into.head_dims, read_shape<2>(row.at("head_dims")));
        TS_ASSIGN(into.tiles, read_shapes<6>(row.at("tiles")));
      }
    }
  }
  // A family the tables say nothing about has the features it has today.
  spec.tables.products = spec.rules;
  TS_TRY(read_families(from.at("families"), spec.tables.products));
  TS_ASSIGN(const auto types, from.at("data_types").members());
  for (const auto& [name, value] : types) {
    auto family = parse_enum<AttentionFamily>(name);
    if (!family) return std::unexpected(family.error().in(value.place()));
    TS_ASSIGN(std::vector<DataType> listed, read_enums<DataType>(value));
    spec.tables.data_types.emplace_back(*family, std::move(listed));
  }
  return {};
}

}  // namespace

bool FieldChoice::allows(const AttentionFeature& feature) const {
  return std::ranges::find(values, read_field(*field, &feature)) != values.end();
}

bool holds(const Condition& condition, const AttentionFeature& feature) {
  return std::ranges::all_of(condition, [&](const FieldChoice& choice) { return choice.allows(feature); });
}

bool has_capability(const AmdChip& chip, AttentionProduct::Need need) {
  switch (need) {
    case AttentionProduct::Need::nothing:
      return true;
    case AttentionProduct::Need::transposed_load:
      return chip.attention && chip.attention->transposed_load;
    case AttentionProduct::Need::v3:
      return chip.attention && chip.attention->v3;
  }
  return false;
}

const AmdAttentionSpec::TypeProperties* AmdAttentionSpec::facts_of(DataType type) const {
  const auto found = std::ranges::find(types, type, &TypeProperties::type);
  return found == types.end() ? nullptr : &*found;
}

const AmdAttentionSpec::Profile* AmdAttentionSpec::profile(std::string_view name) const {
  const auto found = std::ranges::find(profiles, name, &Profile::name);
  return found == profiles.end() ? nullptr : &*found;
}

bool AmdAttentionSpec::receipt_keeps(int receipt, const AttentionFeature& feature) const {
  for (const ReceiptFilter& filter : receipt_filters) {
    if (std::ranges::find(filter.families, feature.signature.family) == filter.families.end()) continue;
    const ReceiptRow* chosen = nullptr;
    for (const ReceiptRow& row : filter.rows) {
      if (std::ranges::find(row.receipts, receipt) != row.receipts.end()) {
        chosen = &row;
        break;
      }
      if (row.receipts.empty()) chosen = &row;
    }
    return chosen == nullptr || holds(chosen->keep, feature);
  }
  return true;
}

Result<FieldChoice> read_choice(std::string_view name, const JsonReader& values) {
  FieldChoice choice{find_field<AttentionFeature>(name), {}};
  if (choice.field == nullptr) {
    std::vector<std::string> known;
    for (const FieldInfo& field : field_table<AttentionFeature>()) known.emplace_back(field.name);
    return fail(ErrorCode::parse,
                fmt::format("{}: \"{}\" is no field of an attention kernel", values.place(), name.substr(0, 64)),
                did_you_mean(name, known));
  }
  TS_ASSIGN(const auto items, values.elements());
  for (const JsonReader& item : items) {
    TS_ASSIGN(const std::int64_t value, read_field_value(*choice.field, item));
    choice.values.push_back(value);
  }
  return choice;
}

Result<Condition> read_condition(const JsonReader& from) {
  TS_ASSIGN(const auto members, from.members());
  Condition condition;
  for (const auto& [name, value] : members) {
    TS_ASSIGN(FieldChoice choice, read_choice(name, value));
    condition.push_back(std::move(choice));
  }
  return condition;
}

Result<AmdAttentionSpec> parse_amd_attention_spec(std::string_view file, std::string_view text,
                                                  std::string_view tables_file, std::string_view tables_text) {
  TS_ASSIGN(const auto document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"about", "data_types", "tile_axes", "k0max_of_head_dim_qk", "k1",
                    "k1_is_16_for_m0_n0_k0_head_dim_qk", "batch_prefill_k1_is_64_for_m0_n0_k0_head_dim_qk",
                    "async_pipelines", "lds", "tiles", "families", "exhaustive", "receipts", "profiles"}));
  AmdAttentionSpec spec;
  TS_TRY(read_types(root.at("data_types"), spec));
  TS_ASSIGN(spec.tile_axes[0], root.at("tile_axes").at("m0").integers(1, 4096));
  TS_ASSIGN(spec.tile_axes[1], root.at("tile_axes").at("n0").integers(1, 4096));
  TS_ASSIGN(spec.tile_axes[2], root.at("tile_axes").at("k0").integers(1, 4096));
  TS_ASSIGN(const auto k0max, read_shapes<2>(root.at("k0max_of_head_dim_qk")));
  for (const auto& [head_dim, padded] : k0max) spec.k0max_of_head_dim_qk.emplace_back(head_dim, padded);
  TS_ASSIGN(spec.k1, root.at("k1").integer<int>(1, 4096));
  TS_ASSIGN(spec.k1_is_16, read_shapes<4>(root.at("k1_is_16_for_m0_n0_k0_head_dim_qk")));
  TS_ASSIGN(spec.batch_prefill_k1_is_64, read_shapes<4>(root.at("batch_prefill_k1_is_64_for_m0_n0_k0_head_dim_qk")));
  TS_ASSIGN(spec.async_pipelines, read_enums<Pipeline>(root.at("async_pipelines")));
  const JsonReader lds = root.at("lds");
  TS_TRY(lds.only(
      {"sync_limit_bytes", "async_limit_bytes", "async_buffers", "async_k1", "lanes", "vector_bytes", "bank_bytes"}));
  TS_ASSIGN(spec.lds.sync_limit_bytes, lds.at("sync_limit_bytes").integer<long>(1, 1 << 30));
  TS_ASSIGN(spec.lds.async_limit_bytes, lds.at("async_limit_bytes").integer<long>(1, 1 << 30));
  TS_ASSIGN(spec.lds.async_buffers, lds.at("async_buffers").integer<int>(1, 16));
  TS_ASSIGN(spec.lds.async_k1, lds.at("async_k1").integer<int>(1, 4096));
  TS_ASSIGN(spec.lds.lanes, lds.at("lanes").integer<int>(1, 128));
  TS_ASSIGN(spec.lds.vector_bytes, lds.at("vector_bytes").integer<int>(1, 128));
  TS_ASSIGN(spec.lds.bank_bytes, lds.at("bank_bytes").integer<int>(1, 128));
  TS_TRY(read_tiles(root.at("tiles"), spec));
  TS_TRY(read_families(root.at("families"), spec.rules));
  TS_TRY(read_families(root.at("exhaustive"), spec.exhaustive));
  TS_TRY(read_receipts(root.at("receipts"), spec));
  TS_TRY(read_profiles(root.at("profiles"), spec));
  TS_ASSIGN(const auto tables, JsonReader::parse(tables_file, tables_text));
  TS_TRY(read_tables(JsonReader(std::string(tables_file), tables), spec));
  return spec;
}

const Result<AmdAttentionSpec>& amd_attention_spec() {
  static const Result<AmdAttentionSpec>& spec = lasting([]() -> Result<AmdAttentionSpec> {
    constexpr std::string_view kFile = "amd/ck/attention.json";
    constexpr std::string_view kTables = "amd/ck/attention_tables.json";
    TS_ASSIGN(const std::string text, spec_file_text(kFile));
    TS_ASSIGN(const std::string tables, spec_file_text(kTables));
    return parse_amd_attention_spec(kFile, text, kTables, tables);
  }());
  return spec;
}

}  // namespace tilesmith
