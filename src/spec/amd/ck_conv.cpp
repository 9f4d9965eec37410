#include "spec/amd/ck_conv.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/lasting.hpp"
#include "spec/amd/ck_reading.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

/// "compv3/intrawave": a pipeline and its scheduler or epilogue.
template <class Second>
Result<std::pair<Pipeline, Second>> read_pair(const JsonReader& from) {
  TS_ASSIGN(const std::string text, from.string());
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return from.refuse("two names joined by /");
  const auto pipeline = parse_enum<Pipeline>(std::string_view(text).substr(0, slash));
  if (!pipeline) return std::unexpected(pipeline.error().in(from.place()));
  const auto second = parse_enum<Second>(std::string_view(text).substr(slash + 1));
  if (!second) return std::unexpected(second.error().in(from.place()));
  return std::pair(*pipeline, *second);
}

template <class Second>
Result<std::vector<std::pair<Pipeline, Second>>> read_pairs(const JsonReader& from) {
  TS_ASSIGN(const auto items, from.elements());
  std::vector<std::pair<Pipeline, Second>> out;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const auto pair, read_pair<Second>(item));
    out.push_back(pair);
  }
  return out;
}

Result<AmdConvSpec::Vector3> read_vector(const JsonReader& from) {
  TS_ASSIGN(const auto shape, read_shape<3>(from));
  AmdConvSpec::Vector3 out{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (shape[i] < 1 || shape[i] > 64) return from.refuse("three figures from 1 to 64");
    out[i] = static_cast<std::uint8_t>(shape[i]);
  }
  return out;
}

Result<AmdConvSpec::ByClass> read_class(const JsonReader& from) {
  TS_TRY(from.only({"spatial_dims", "vectors", "pipelines"}));
  AmdConvSpec::ByClass out;
  TS_ASSIGN(out.spatial_dims, from.at("spatial_dims").integers(1, 3));
  TS_ASSIGN(const auto vectors, from.at("vectors").elements());
  for (const JsonReader& item : vectors) {
    TS_ASSIGN(const auto vector, read_vector(item));
    out.vectors.push_back(vector);
  }
  TS_ASSIGN(out.pipelines, read_pairs<Scheduler>(from.at("pipelines")));
  return out;
}

Result<AmdConvSpec::Row> read_row(const JsonReader& from) {
  TS_TRY(from.only({"tile", "waves", "fragments_mn", "half", "fp32"}));
  AmdConvSpec::Row row;
  TS_ASSIGN(row.tile, read_shape<3>(from.at("tile")));
  TS_ASSIGN(row.waves, read_shapes<3>(from.at("waves")));
  for (const Shape3& waves : row.waves)
    if (std::ranges::find(waves, 0) != waves.end()) return from.at("waves").refuse("figures above 0");
  if (from.has("fragments_mn")) {
    TS_ASSIGN(const auto items, from.at("fragments_mn").elements());
    for (const JsonReader& item : items) {
      TS_TRY(item.only({"waves", "shapes"}));
      TS_ASSIGN(const Shape3 waves, read_shape<3>(item.at("waves")));
      TS_ASSIGN(auto shapes, read_shapes<2>(item.at("shapes")));
      row.fragments_mn.emplace_back(waves, std::move(shapes));
    }
  }
  if (from.has("half")) {
    TS_ASSIGN(row.half, read_class(from.at("half")));
  }
  if (from.has("fp32")) {
    TS_ASSIGN(row.single, read_class(from.at("fp32")));
  }
  return row;
}

Result<AmdConvSpec::Feature> read_feature(const JsonReader& from) {
  TS_TRY(from.only({"tiles", "large_tensor", "explicit_gemm", "two_stage", "persistent", "half_only", "groups_merged",
                    "stream_k", "pipelines"}));
  AmdConvSpec::Feature feature;
  TS_ASSIGN(feature.tiles, read_shapes<3>(from.at("tiles")));
  for (const auto& [name, flag] :
       {std::pair("large_tensor", &feature.large_tensor), std::pair("explicit_gemm", &feature.explicit_gemm),
        std::pair("two_stage", &feature.two_stage), std::pair("persistent", &feature.persistent),
        std::pair("half_only", &feature.half_only)})
    if (from.has(name)) {
      TS_ASSIGN(*flag, from.at(name).boolean());
    }
  if (from.has("groups_merged")) {
    TS_ASSIGN(feature.groups_merged, from.at("groups_merged").integer<int>(1, 128));
  }
  if (from.has("stream_k")) {
    TS_ASSIGN(feature.stream_k, from.at("stream_k").enumerator<StreamKReduction>());
  }
  if (from.has("pipelines")) {
    TS_ASSIGN(feature.pipelines, read_pairs<Scheduler>(from.at("pipelines")));
  }
  return feature;
}

Status read_direction(const JsonReader& from, AmdConvSpec::Direction& direction) {
  TS_TRY(from.only({"rows", "features"}));
  TS_ASSIGN(const auto rows, from.at("rows").elements());
  for (const JsonReader& item : rows) {
    TS_ASSIGN(AmdConvSpec::Row row, read_row(item));
    direction.rows.push_back(std::move(row));
  }
  TS_ASSIGN(const auto features, from.at("features").elements());
  for (const JsonReader& item : features) {
    TS_ASSIGN(AmdConvSpec::Feature feature, read_feature(item));
    for (const Shape3& tile : feature.tiles)
      if (direction.row(tile) == nullptr)
        return item.at("tiles").refuse(
            fmt::format("tiles that have a row; {}x{}x{} has none", tile[0], tile[1], tile[2]));
    direction.features.push_back(std::move(feature));
  }
  return {};
}

Status read_depthwise(const JsonReader& from, AmdConvSpec& spec) {
  TS_TRY(from.only({"about", "kernels"}));
  TS_ASSIGN(const auto items, from.at("kernels").elements());
  for (const JsonReader& item : items) {
    TS_ASSIGN(const auto figures, read_shape<10>(item));
    for (std::size_t i = 0; i < 10; ++i)
      if (figures[i] < 1 || figures[i] > (i < 2 ? 4096 : 255))
        return item.refuse("ten figures: a tile up to 4096, the rest up to 255, none 0");
    const auto small = [&](std::size_t i) { return static_cast<std::uint8_t>(figures[i]); };
    spec.depthwise.push_back(
        {figures[0], figures[1], small(2), small(3), small(4), small(5), small(6), small(7), small(8), small(9)});
  }
  return {};
}

Status read_default_set(const JsonReader& from, AmdConvSpec& spec) {
  TS_TRY(from.only({"kernels", "vector", "pipelines"}));
  TS_ASSIGN(spec.default_vector, read_vector(from.at("vector")));
  TS_ASSIGN(const auto kernels, from.at("kernels").elements());
  for (const JsonReader& item : kernels) {
    TS_TRY(item.only({"tile", "waves", "fragment", "compv4"}));
    auto& kernel = spec.default_kernels.emplace_back();
    TS_ASSIGN(kernel.tile, read_shape<3>(item.at("tile")));
    TS_ASSIGN(kernel.waves, read_shape<3>(item.at("waves")));
    TS_ASSIGN(kernel.fragment, read_shape<3>(item.at("fragment")));
    TS_ASSIGN(kernel.compv4, item.at("compv4").boolean());
  }
  for (const auto& entry : EnumTable<ConvDirection>::kNames) {
    TS_ASSIGN(spec.directions[static_cast<std::size_t>(entry.value)].default_pipelines,
              read_pairs<Epilogue>(from.at("pipelines").at(entry.name)));
  }
  return {};
}

Status read_wrong_results(const JsonReader& from, AmdConvSpec& spec) {
  TS_ASSIGN(const auto items, from.elements());
  for (const JsonReader& item : items) {
    TS_TRY(item.only({"about", "direction", "half_only", "pipelines", "waves_mn_above"}));
    auto& wrong = spec.wrong_results.emplace_back();
    TS_ASSIGN(wrong.direction, item.at("direction").enumerator<ConvDirection>());
    TS_ASSIGN(wrong.half_only, item.at("half_only").boolean());
    TS_ASSIGN(wrong.pipelines, read_pairs<Scheduler>(item.at("pipelines")));
    TS_ASSIGN(wrong.waves_mn_above, item.at("waves_mn_above").integer<int>(0, 64));
  }
  return {};
}

}  // namespace

const AmdConvSpec::Row* AmdConvSpec::Direction::row(const Shape3& tile) const {
  const auto found = std::ranges::find(rows, tile, &Row::tile);
  return found == rows.end() ? nullptr : &*found;
}

Result<AmdConvSpec> parse_amd_conv_spec(std::string_view file, std::string_view text) {
  TS_ASSIGN(const auto document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"about", "data_types", "excluded_fragments_mn", "legacy_fragment_k_tiles", "directions",
                    "depthwise", "default_set", "wrong_results"}));
  AmdConvSpec spec;
  TS_ASSIGN(spec.data_types, read_enums<DataType>(root.at("data_types")));
  TS_ASSIGN(spec.excluded_fragments_mn, read_shapes<2>(root.at("excluded_fragments_mn")));
  const JsonReader legacy = root.at("legacy_fragment_k_tiles");
  TS_TRY(legacy.only({"direction", "pipeline", "tiles"}));
  TS_ASSIGN(spec.legacy_direction, legacy.at("direction").enumerator<ConvDirection>());
  TS_ASSIGN(spec.legacy_pipeline, legacy.at("pipeline").enumerator<Pipeline>());
  TS_ASSIGN(spec.legacy_tiles, read_shapes<3>(legacy.at("tiles")));
  for (const auto& entry : EnumTable<ConvDirection>::kNames)
    TS_TRY(
        read_direction(root.at("directions").at(entry.name), spec.directions[static_cast<std::size_t>(entry.value)]));
  TS_TRY(read_depthwise(root.at("depthwise"), spec));
  TS_TRY(read_default_set(root.at("default_set"), spec));
  TS_TRY(read_wrong_results(root.at("wrong_results"), spec));
  return spec;
}

const Result<AmdConvSpec>& amd_conv_spec() {
  static const Result<AmdConvSpec>& spec = lasting([]() -> Result<AmdConvSpec> {
    constexpr std::string_view kFile = "amd/ck/conv.json";
    TS_ASSIGN(const std::string text, spec_file_text(kFile));
    return parse_amd_conv_spec(kFile, text);
  }());
  return spec;
}

}  // namespace tilesmith
