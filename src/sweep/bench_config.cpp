#include "sweep/bench_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "problem/describe.hpp"
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

Result<std::string> layout_value(const JsonReader& reader) {
  TS_ASSIGN(const std::string text, reader.string());
  GemmProblem problem;
  if (const Status set = set_layout(problem, text); !set) return reader.refuse(set.error().hint);
  return text;
}

/// Operations joined by +, as tables show them.
Result<std::string> epilogue_value(const JsonReader& reader) {
  TS_ASSIGN(const std::string text, reader.string());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('+', at), text.size());
    if (const auto op = parse_enum<EpilogueOp>(std::string_view(text).substr(at, end - at)); !op)
      return reader.refuse(op.error().hint);
    at = end + 1;
  }
  return text;
}

enum Users : unsigned { kAttention = 1, kGemm = 2, kBoth = 3 };

struct Trait {
  std::string_view name;
  Users users;
  Result<std::string> (*read)(const JsonReader&);
};

constexpr Trait kTraits[] = {
    {"data_type", kBoth, enum_value<DataType>},
    {"mode", kAttention, enum_value<SequenceMode>},
    {"mask", kAttention, enum_value<MaskKind>},
    {"bias", kAttention, enum_value<BiasKind>},
    {"lse", kAttention, flag_value},
    {"dropout", kAttention, flag_value},
    {"head_dim_qk", kAttention, integer_value},
    {"head_dim_v", kAttention, integer_value},
    {"output_type", kGemm, enum_value<DataType>},
    {"layout", kGemm, layout_value},
    {"epilogue", kGemm, epilogue_value},
    {"beta", kGemm, flag_value},
    {"arch", kBoth, [](const JsonReader& r) { return r.string(); }},
    {"pipeline", kBoth, enum_value<Pipeline>},
    {"instruction", kBoth, enum_value<Instruction>},
    {"tile_m", kBoth, integer_value},
    {"tile_n", kBoth, integer_value},
    {"tile_k", kGemm, integer_value},
    {"split_k", kGemm, flag_value},
};

}  // namespace

Result<BenchConfig> BenchConfig::parse(Operation operation, std::string_view file, std::string_view text) {
  const Users user = operation == Operation::gemm ? kGemm : kAttention;
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"variant", "trait_config"}));
  if (root.has("variant") && operation != Operation::attention)
    return root.at("variant").refuse("no variant: this operation has none");
  if (root.has("variant")) {
    TS_ASSIGN(const std::string variant, root.at("variant").string());
    if (variant != "fwd") return root.at("variant").refuse("\"fwd\": the variant that runs here");
  }
  BenchConfig config;
  if (!root.has("trait_config")) return config;
  TS_ASSIGN(const auto members, root.at("trait_config").members());
  for (const auto& [name, reader] : members) {
    const auto* trait = std::ranges::find(kTraits, std::string_view(name), &Trait::name);
    if (trait == std::end(kTraits) || (trait->users & user) == 0) {
      std::vector<std::string> known;
      for (const Trait& each : kTraits)
        if ((each.users & user) != 0) known.emplace_back(each.name);
      return fail(ErrorCode::parse, fmt::format("{} is no trait of a bench of {}", reader.place(), name_of(operation)),
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

bool BenchConfig::allows(const GemmProblem& p) const {
  return allows("data_type", name_of(p.type_a)) && allows("output_type", name_of(p.type_d)) &&
         allows("layout", layout_of(p)) && allows("epilogue", joined(p.epilogue)) && allows("beta", p.beta ? "1" : "0");
}

bool BenchConfig::allows(const Recipe& recipe) const {
  return std::ranges::all_of(recipe.steps, [this](const Step& step) { return allows(step.config); });
}

bool BenchConfig::allows(const KernelConfig& config) const {
  const Algorithm& a = config.algorithm;
  return allows("arch", config.arch.text()) && allows("pipeline", name_of(a.pipeline)) &&
         allows("instruction", name_of(a.instruction)) && allows("tile_m", std::to_string(a.tile[0])) &&
         allows("tile_n", std::to_string(a.tile[1])) && allows("tile_k", std::to_string(a.tile[2])) &&
         allows("split_k", a.split_k ? "1" : "0");
}

}  // namespace tilesmith
