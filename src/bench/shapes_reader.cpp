// Reading a shape matrix. Everything is checked while it is read, so that what reads it later cannot fail; an error
// names file, path in the document, line and value.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/embedded.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"
#include "bench/shapes.hpp"

namespace tilesmith {

std::span<const EmbeddedFile> embedded_bench_data();

namespace {

constexpr std::uint64_t kFileLimit = 4 << 20;
constexpr std::int64_t kShapeLimit = 10'000'000;            // of one sweep
constexpr std::int64_t kSizeLimit = std::int64_t{1} << 31;  // of one axis value: longer sequences need other kernels

const std::vector<std::string> kAxes = {"batch",       "seqlen_q",   "seqlen_k", "heads_q",   "heads_kv",
                                        "head_dim_qk", "head_dim_v", "dtype",    "mask",      "bias",
                                        "dropout",     "lse",        "layout",   "grad_bias", "deterministic"};

}  // namespace

class ShapeReader {
 public:
  explicit ShapeReader(std::string_view origin) : origin_(origin) {}

  Result<ShapeMatrix> read(std::string_view yaml) {
    // yaml-cpp reports by exceptions; none of them leaves this function.
    try {
      const YAML::Node root = YAML::Load(std::string(yaml));
      TS_TRY(map(root, "the document"));
      TS_TRY(read_root(root));
      return std::move(matrix_);
    } catch (const YAML::Exception& error) {
      return fail(ErrorCode::parse, fmt::format("{}: line {}: {}", origin_, error.mark.line + 1, error.msg));
    }
  }

 private:
  using Sweep = ShapeSweep;

  std::unexpected<Error> wrong(const YAML::Node& node, std::string_view path, std::string_view what,
                               std::string hint) const {
    return fail(ErrorCode::parse, fmt::format("{}: line {}: {} {}", origin_, node.Mark().line + 1, path, what),
                std::move(hint));
  }
  static std::string text(const YAML::Node& node) {
    if (node.IsScalar()) return fmt::format("'{:.60}'", node.Scalar());
    return node.IsSequence() ? "a list" : node.IsMap() ? "a map" : "nothing";
  }
  Status map(const YAML::Node& node, std::string_view path) const {
    if (node.IsMap()) return {};
    return wrong(node, path, fmt::format("is {}", text(node)), "a map");
  }
  Status list(const YAML::Node& node, std::string_view path) const {
    if (node.IsSequence()) return {};
    return wrong(node, path, fmt::format("is {}", text(node)), "a list");
  }
  Status known_keys(const YAML::Node& node, std::string_view path, const std::vector<std::string>& known) const {
    std::vector<std::string> seen;
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (std::ranges::find(known, key) == known.end())
        return wrong(entry.first, path, fmt::format("has the unknown key '{:.60}'", key), did_you_mean(key, known));
      if (std::ranges::find(seen, key) != seen.end())
        return wrong(entry.first, path, fmt::format("has '{}' twice", key), "once");
      seen.push_back(key);
    }
    return {};
  }
  Result<std::string> string(const YAML::Node& node, std::string_view path) const {
    if (!node.IsScalar() || node.Scalar().empty()) return wrong(node, path, fmt::format("is {}", text(node)), "a word");
    return node.Scalar();
  }
  Result<std::int64_t> integer(const YAML::Node& node, std::string_view path, std::int64_t least) const {
    std::int64_t value = 0;
    if (!node.IsScalar() || !YAML::convert<std::int64_t>::decode(node, value) || value < least || value > kSizeLimit)
      return wrong(node, path, fmt::format("is {}", text(node)),
                   fmt::format("a whole number from {} to {}", least, kSizeLimit));
    return value;
  }

  // The values of one axis, each read by `read_one`; the default's when the sweep does not name it.
  template <class Value, class ReadOne>
  Status axis(const YAML::Node& axes, const std::string& path, const char* name, std::vector<Value>& values,
              ReadOne read_one) const {
    const YAML::Node node = axes[name];
    if (!node.IsDefined()) return {};  // keeps the default
    const std::string here = fmt::format("{}.{}", path, name);
    TS_TRY(list(node, here));
    if (node.size() == 0) return wrong(node, here, "is empty", "at least one value");
    values.clear();
    for (std::size_t i = 0; i < node.size(); ++i) {
      TS_ASSIGN(const Value value, read_one(node[i], fmt::format("{}[{}]", here, i)));
      values.push_back(value);
    }
    return {};
  }

  Result<ShapeAxes> read_axes(const YAML::Node& node, const std::string& path, ShapeAxes axes) const {
    TS_TRY(map(node, path));
    TS_TRY(known_keys(node, path, kAxes));
    const auto size = [&](const YAML::Node& value, const std::string& at) { return integer(value, at, 1); };
    const auto number = [&](const YAML::Node& value, const std::string& at) -> Result<double> {
      double p = 0;
      if (!value.IsScalar() || !YAML::convert<double>::decode(value, p) || !(p >= 0 && p < 1))
        return wrong(value, at, fmt::format("is {}", text(value)), "a probability from 0 to below 1");
      return p;
    };
    const auto flag = [&](const YAML::Node& value, const std::string& at) -> Result<bool> {
      bool on = false;
      if (!value.IsScalar() || !YAML::convert<bool>::decode(value, on))
        return wrong(value, at, fmt::format("is {}", text(value)), "true or false");
      return on;
    };
    const auto word = [&]<class E>(E) {
      return [this](const YAML::Node& value, const std::string& at) -> Result<E> {
        TS_ASSIGN(const std::string name, string(value, at));
        Result<E> parsed = parse_enum<E>(name);
        if (!parsed) return wrong(value, at, fmt::format("is '{:.60}'", name), parsed.error().hint);
        return *parsed;
      };
    };
    TS_TRY(axis(node, path, "batch", axes.batch, size));
    TS_TRY(axis(node, path, "seqlen_q", axes.seqlen_q, size));
    TS_TRY(axis(node, path, "seqlen_k", axes.seqlen_k, size));
    TS_TRY(axis(node, path, "heads_q", axes.heads_q, size));
    TS_TRY(axis(node, path, "heads_kv", axes.heads_kv, size));
    TS_TRY(axis(node, path, "head_dim_qk", axes.head_dim_qk, size));
    TS_TRY(axis(node, path, "head_dim_v", axes.head_dim_v, size));
    TS_TRY(axis(node, path, "dtype", axes.data_type, word(DataType{})));
    TS_TRY(axis(node, path, "mask", axes.mask, word(MaskKind{})));
    TS_TRY(axis(node, path, "bias", axes.bias, word(BiasKind{})));
    TS_TRY(axis(node, path, "dropout", axes.dropout, number));
    TS_TRY(axis(node, path, "lse", axes.lse, flag));
    return axes;
  }

  Result<Sweep> read_sweep(const YAML::Node& node, const std::string& path) const {
    TS_TRY(map(node, path));
    TS_TRY(known_keys(node, path, {"id", "counts", "axes", "about"}));
    Sweep sweep;
    TS_ASSIGN(sweep.id, string(node["id"], path + ".id"));
    if (node["about"].IsDefined()) {
      TS_ASSIGN(sweep.about, string(node["about"], path + ".about"));
    }
    TS_ASSIGN(sweep.axes, read_axes(node["axes"], path + ".axes", defaults_));
    if (sweep.size() > kShapeLimit)
      return wrong(node, path, fmt::format("has {} shapes", sweep.size()), fmt::format("at most {}", kShapeLimit));
    if (const YAML::Node counts = node["counts"]; counts.IsDefined()) {
      TS_TRY(map(counts, path + ".counts"));
      TS_TRY(known_keys(counts, path + ".counts", {"shapes", "distinct", "pair_ok", "heads_ok"}));
      TS_TRY(read_counts(counts, path + ".counts", sweep.counts));
      if (sweep.counts.shapes != sweep.size())
        return wrong(counts, path + ".counts.shapes", fmt::format("is {}", sweep.counts.shapes),
                     fmt::format("the axes have {} shapes", sweep.size()));
    }
    return sweep;
  }
  Status read_counts(const YAML::Node& node, const std::string& path, Sweep::Counts& counts) const {
    TS_ASSIGN(counts.shapes, integer(node["shapes"], path + ".shapes", 0));
    TS_ASSIGN(counts.distinct, integer(node["distinct"], path + ".distinct", 0));
    TS_ASSIGN(counts.pair_ok, integer(node["pair_ok"], path + ".pair_ok", 0));
    TS_ASSIGN(counts.heads_ok, integer(node["heads_ok"], path + ".heads_ok", 0));
    return {};
  }

  Status read_root(const YAML::Node& root) {
    TS_TRY(known_keys(
        root, "the document",
        {"schema", "tiers", "axis_defaults_when_absent", "variant_sections", "summary", "forward", "backward"}));
    TS_ASSIGN(const std::int64_t schema, integer(root["schema"], "schema", 0));
    if (schema != 1) return wrong(root["schema"], "schema", fmt::format("is {}", schema), "1");
    const ShapeAxes one{
        {1},   {1024}, {1024}, {16}, {16}, {128}, {128}, {DataType::fp16}, {MaskKind::none}, {BiasKind::none},
        {0.0}, {false}};
    defaults_ = one;
    if (const YAML::Node node = root["axis_defaults_when_absent"]; node.IsDefined()) {
      TS_ASSIGN(defaults_, read_axes(node, "axis_defaults_when_absent", one));
    }
    TS_TRY(read_sections(root));
    TS_TRY(read_tiers(root["tiers"]));
    TS_TRY(read_variants(root["variant_sections"]));
    if (root["summary"].IsDefined()) TS_TRY(check_summary(root["summary"]));
    return {};
  }

  Status read_sections(const YAML::Node& root) {
    for (const char* section : {"forward", "backward"}) {
      if (!root[section].IsDefined()) continue;
      TS_TRY(map(root[section], section));
      for (const auto& tier : root[section]) {
        const auto name = tier.first.as<std::string>();
        const std::string path = fmt::format("{}.{:.60}", section, name);
        TS_TRY(list(tier.second, path));
        std::vector<Sweep>& sweeps = matrix_.sections_[section][name];
        if (!sweeps.empty()) return wrong(tier.first, path, "is there twice", "once");
        for (std::size_t i = 0; i < tier.second.size(); ++i) {
          TS_ASSIGN(Sweep sweep, read_sweep(tier.second[i], fmt::format("{}[{}]", path, i)));
          sweeps.push_back(std::move(sweep));
        }
      }
    }
    return {};
  }

  Status read_tiers(const YAML::Node& node) {
    TS_TRY(map(node, "tiers"));
    for (const auto& entry : node) {
      const auto name = entry.first.as<std::string>();
      const std::string path = fmt::format("tiers.{:.60}", name);
      TS_TRY(map(entry.second, path));
      TS_TRY(known_keys(entry.second, path, {"includes", "timeout_s", "note"}));
      ShapeMatrix::Tier tier;
      TS_ASSIGN(const std::int64_t seconds, integer(entry.second["timeout_s"], path + ".timeout_s", 1));
      tier.timeout_s = static_cast<int>(std::min<std::int64_t>(seconds, 1 << 30));
      const YAML::Node includes = entry.second["includes"];
      TS_TRY(list(includes, path + ".includes"));
      for (std::size_t i = 0; i < includes.size(); ++i) {
        const std::string at = fmt::format("{}.includes[{}]", path, i);
        TS_ASSIGN(const std::string included, string(includes[i], at));
        if (!node[included].IsDefined())
          return wrong(includes[i], at, fmt::format("is '{:.60}'", included), "the name of a tier");
        tier.includes.push_back(included);
      }
      matrix_.tiers_.emplace(name, std::move(tier));
    }
    for (const auto& [name, section] : matrix_.sections_)
      for (const auto& [tier, sweeps] : section)
        if (!matrix_.tiers_.contains(tier))
          return fail(ErrorCode::parse, fmt::format("{}: {} has the tier '{}'", origin_, name, tier),
                      "a tier of 'tiers'");
    return {};
  }

  Status read_variants(const YAML::Node& node) {
    TS_TRY(map(node, "variant_sections"));
    for (const auto& entry : node) {
      const std::string path = fmt::format("variant_sections.{:.60}", entry.first.as<std::string>());
      TS_ASSIGN(const std::string section, string(entry.second, path));
      if (!matrix_.sections_.contains(section))
        return wrong(entry.second, path, fmt::format("is '{:.60}'", section),
                     "a section of this file: forward or backward");
      matrix_.variant_sections_.emplace(entry.first.as<std::string>(), section);
    }
    return {};
  }

  // The totals the file gives must be those of its sweeps.
  Status check_summary(const YAML::Node& node) const {
    TS_TRY(list(node, "summary"));
    for (std::size_t i = 0; i < node.size(); ++i) {
      const std::string path = fmt::format("summary[{}]", i);
      TS_TRY(map(node[i], path));
      TS_TRY(known_keys(node[i], path, {"section", "tier", "sweeps", "shapes", "distinct", "pair_ok", "heads_ok"}));
      TS_ASSIGN(const std::string section, string(node[i]["section"], path + ".section"));
      TS_ASSIGN(const std::string tier, string(node[i]["tier"], path + ".tier"));
      Sweep::Counts said, counted;
      TS_TRY(read_counts(node[i], path, said));
      TS_ASSIGN(const std::int64_t said_sweeps, integer(node[i]["sweeps"], path + ".sweeps", 0));
      std::int64_t sweeps = 0;
      if (const auto found = matrix_.sections_.find(section); found != matrix_.sections_.end())
        if (const auto tiered = found->second.find(tier); tiered != found->second.end())
          for (const Sweep& sweep : tiered->second) {
            ++sweeps;
            counted.shapes += sweep.size();
            counted.distinct += sweep.counts.distinct;
            counted.pair_ok += sweep.counts.pair_ok;
            counted.heads_ok += sweep.counts.heads_ok;
          }
      const std::pair<const char*, std::pair<std::int64_t, std::int64_t>> figures[] = {
          {"sweeps", {said_sweeps, sweeps}},
          {"shapes", {said.shapes, counted.shapes}},
          {"distinct", {said.distinct, counted.distinct}},
          {"pair_ok", {said.pair_ok, counted.pair_ok}},
          {"heads_ok", {said.heads_ok, counted.heads_ok}}};
      for (const auto& [name, figure] : figures)
        if (figure.first != figure.second)
          return wrong(node[i], fmt::format("{}.{}", path, name), fmt::format("is {}", figure.first),
                       fmt::format("the sweeps of {}.{} have {}", section, tier, figure.second));
    }
    return {};
  }

  std::string origin_;
  ShapeAxes defaults_;
  ShapeMatrix matrix_;
};

Result<ShapeMatrix> ShapeMatrix::parse(std::string_view yaml, std::string_view origin) {
  if (yaml.size() > kFileLimit)
    return fail(ErrorCode::parse, fmt::format("{} has {} bytes", origin, yaml.size()),
                fmt::format("at most {}", kFileLimit));
  return ShapeReader(origin).read(yaml);
}

Result<ShapeMatrix> ShapeMatrix::load(const std::filesystem::path& path) {
  TS_ASSIGN(const std::string yaml, read_file(path, kFileLimit));
  return parse(yaml, path.string());
}

Result<ShapeMatrix> ShapeMatrix::builtin() {
  for (const EmbeddedFile& file : embedded_bench_data())
    if (file.path == "attention_shapes.yaml") return parse(file.text, "the built-in attention_shapes.yaml");
  return fail(ErrorCode::internal, "attention_shapes.yaml is not part of this build");
}

}  // namespace tilesmith
