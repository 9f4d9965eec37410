#include "bench/bench_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {
namespace {

template <TabledEnum E>
Result<std::string> enum_value(const JsonReader& reader) {
  TS_ASSIGN(const E value, reader.enumerator<E>());
  return std::string(name_of(value));
}

Result<std::string> flag_value(const JsonReader& reader) {
  TS_ASSIGN(const bool value, reader.boolean());
  return std::string(value ? "1" : "0");
}

Result<std::string> integer_value(const JsonReader& reader) {
  TS_ASSIGN(const std::int64_t value, reader.integer(0, 65535));
  return std::to_string(value);
}

struct Trait {
  std::string_view name;
  Result<std::string> (*read)(const JsonReader&);
};

constexpr Trait kTraits[] = {
    {"data_type", enum_value<DataType>},
    {"mode", enum_value<SequenceMode>},
    {"mask", enum_value<MaskKind>},
    {"bias", enum_value<BiasKind>},
    {"lse", flag_value},
    {"dropout", flag_value},
    {"head_dim_qk", integer_value},
    {"head_dim_v", integer_value},
    {"arch", [](const JsonReader& r) { return r.string(); }},
    {"pipeline", enum_value<Pipeline>},
    {"instruction", enum_value<Instruction>},
    {"tile_m", integer_value},
    {"tile_n", integer_value},
};

}  // namespace

Result<BenchConfig> BenchConfig::parse(std::string_view file, std::string_view text) {
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"variant", "trait_config"}));
  if (root.has("variant")) {
    TS_ASSIGN(const std::string variant, root.at("variant").string());
    if (variant != "fwd") return root.at("variant").refuse("\"fwd\": the variant that runs here");
  }
  BenchConfig config;
  if (!root.has("trait_config")) return config;
  TS_ASSIGN(const auto members, root.at("trait_config").members());
  for (const auto& [name, reader] : members) {
    const auto* trait = std::ranges::find(kTraits, std::string_view(name), &Trait::name);
    if (trait == std::end(kTraits)) {
      std::vector<std::string> known;
      for (const Trait& each : kTraits) known.emplace_back(each.name);
      return fail(ErrorCode::parse, fmt::format("{} is no trait of a bench", reader.place()),
                  did_you_mean(name, known));
    }
    TS_TRY(reader.only({"values"}));
    TS_ASSIGN(const auto values, reader.at("values").elements());
    if (values.empty()) return reader.at("values").refuse("at least one value; leave the trait out to allow all");
    Allowed allowed{name, {}};
    for (const JsonReader& value : values) {
      TS_ASSIGN(std::string canonical, trait->read(value));
      allowed.values.push_back(std::move(canonical));
    }
    config.allowed_.push_back(std::move(allowed));
  }
  return config;
}

bool BenchConfig::allows(std::string_view trait, std::string_view value) const {
  const auto found = std::ranges::find(allowed_, trait, &Allowed::trait);
  return found == allowed_.end() || std::ranges::find(found->values, value) != found->values.end();
}

bool BenchConfig::allows(const AttentionProblem& p) const {
  return allows("data_type", name_of(p.data_type)) && allows("mode", name_of(p.mode)) &&
         allows("mask", name_of(p.mask)) && allows("bias", name_of(p.bias)) && allows("lse", p.lse ? "1" : "0") &&
         allows("dropout", p.dropout ? "1" : "0") && allows("head_dim_qk", std::to_string(p.head_dim_qk)) &&
         allows("head_dim_v", std::to_string(p.head_dim_v));
}

bool BenchConfig::allows(const KernelConfig& config) const {
  const Algorithm& a = config.algorithm;
  return allows("arch", config.arch.text()) && allows("pipeline", name_of(a.pipeline)) &&
         allows("instruction", name_of(a.instruction)) && allows("tile_m", std::to_string(a.tile[0])) &&
         allows("tile_n", std::to_string(a.tile[1]));
}

}  // namespace tilesmith
