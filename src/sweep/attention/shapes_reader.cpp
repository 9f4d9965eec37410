// Reading an attention shape matrix. Everything is checked while it is read, so that what reads it later cannot fail.
#include <utility>

#include "sweep/attention/shapes.hpp"

namespace tilesmith {
namespace {

const std::vector<std::string> kAxes = {"batch",       "seqlen_q",   "seqlen_k",  "heads_q",      "heads_kv",
                                        "head_dim_qk", "head_dim_v", "dtype",     "mask",         "bias",
                                        "dropout",     "lse",        "window",    "soft_cap",     "sink",
                                        "block_scale", "layout",     "grad_bias", "deterministic"};
/// The fields that these axes set.
const std::vector<std::string> kCovered = {
    "data_type",   "batch",        "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "head_dim_qk", "head_dim_v", "mask",
    "window_left", "window_right", "bias",    "soft_cap", "sink",     "dropout",  "lse",         "block_scale"};

}  // namespace

class AttentionShapesReader {
 public:
  explicit AttentionShapesReader(std::string_view origin) : yaml_(origin) {}

  Result<AttentionShapes> read(std::string_view text) {
    TS_TRY(yaml_.document(text, [this](const YAML::Node& root) { return read_root(root); }));
    return std::move(matrix_);
  }

 private:
  using Sweep = AttentionShapeSweep;

  Result<AttentionAxes> read_axes(const YAML::Node& node, const std::string& path, AttentionAxes axes) const {
    TS_TRY(yaml_.map(node, path));
    const std::vector<std::string> others = FieldAxes<AttentionProblem>::names(kCovered);
    std::vector<std::string> known = kAxes;
    known.insert(known.end(), others.begin(), others.end());
    TS_TRY(yaml_.known_keys(node, path, known));
    TS_TRY(axes.others.read(yaml_, node, path, others));
    const auto size = [&](const YAML::Node& value, const std::string& at) { return yaml_.integer(value, at, 1); };
    const auto number = [&](const YAML::Node& value, const std::string& at) -> Result<double> {
      double p = 0;
      if (!value.IsScalar() || !YAML::convert<double>::decode(value, p) || !(p >= 0 && p < 1))
        return yaml_.wrong(value, at, fmt::format("is {}", YamlReader::text(value)), "a probability from 0 to below 1");
      return p;
    };
    const auto flag = [&](const YAML::Node& value, const std::string& at) { return yaml_.flag(value, at); };
    const auto word = [&]<class E>(E) {
      return [this](const YAML::Node& value, const std::string& at) { return yaml_.enumerator<E>(value, at); };
    };
    TS_TRY(yaml_.axis(node, path, "batch", axes.batch, size));
    TS_TRY(yaml_.axis(node, path, "seqlen_q", axes.seqlen_q, size));
    TS_TRY(yaml_.axis(node, path, "seqlen_k", axes.seqlen_k, size));
    TS_TRY(yaml_.axis(node, path, "heads_q", axes.heads_q, size));
    TS_TRY(yaml_.axis(node, path, "heads_kv", axes.heads_kv, size));
    TS_TRY(yaml_.axis(node, path, "head_dim_qk", axes.head_dim_qk, size));
    TS_TRY(yaml_.axis(node, path, "head_dim_v", axes.head_dim_v, size));
    TS_TRY(yaml_.axis(node, path, "dtype", axes.data_type, word(DataType{})));
    TS_TRY(yaml_.axis(node, path, "mask", axes.mask, word(MaskKind{})));
    TS_TRY(yaml_.axis(node, path, "bias", axes.bias, word(BiasKind{})));
    TS_TRY(yaml_.axis(node, path, "dropout", axes.dropout, number));
    TS_TRY(yaml_.axis(node, path, "lse", axes.lse, flag));
    const auto window = [&](const YAML::Node& value, const std::string& at) -> Result<AttentionWindow> {
      TS_TRY(yaml_.list(value, at));
      if (value.size() != 2)
        return yaml_.wrong(value, at, fmt::format("has {} bounds", value.size()), "[left, right], -1 for none");
      AttentionWindow bounds{};
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        TS_ASSIGN(bounds[i], yaml_.integer(value[i], fmt::format("{}[{}]", at, i), -1));
      }
      return bounds;
    };
    TS_TRY(yaml_.axis(node, path, "window", axes.window, window));
    TS_TRY(yaml_.axis(node, path, "soft_cap", axes.soft_cap, flag));
    TS_TRY(yaml_.axis(node, path, "sink", axes.sink, flag));
    TS_TRY(yaml_.axis(node, path, "block_scale", axes.block_scale, flag));
    return axes;
  }

  Result<Sweep> read_sweep(const YAML::Node& node, const std::string& path) const {
    TS_TRY(yaml_.map(node, path));
    TS_TRY(yaml_.known_keys(node, path, {"id", "counts", "axes", "about"}));
    Sweep sweep;
    TS_ASSIGN(sweep.id, sweep_id(yaml_, node, path));
    if (node["about"].IsDefined()) {
      TS_ASSIGN(sweep.about, yaml_.string(node["about"], path + ".about"));
    }
    TS_ASSIGN(sweep.axes, read_axes(node["axes"], path + ".axes", defaults_));
    TS_TRY(check_sweep_size(yaml_, node, path, sweep.size()));
    if (const YAML::Node counts = node["counts"]; counts.IsDefined()) {
      TS_TRY(yaml_.map(counts, path + ".counts"));
      TS_TRY(yaml_.known_keys(counts, path + ".counts", {"shapes", "distinct", "pair_ok", "heads_ok"}));
      TS_TRY(read_counts(counts, path + ".counts", sweep.counts));
      if (sweep.counts.shapes != sweep.size())
        return yaml_.wrong(counts, path + ".counts.shapes", fmt::format("is {}", sweep.counts.shapes),
                           fmt::format("the axes have {} shapes", sweep.size()));
    }
    return sweep;
  }
  Status read_counts(const YAML::Node& node, const std::string& path, Sweep::Counts& counts) const {
    TS_ASSIGN(counts.shapes, yaml_.integer(node["shapes"], path + ".shapes", 0));
    TS_ASSIGN(counts.distinct, yaml_.integer(node["distinct"], path + ".distinct", 0));
    TS_ASSIGN(counts.pair_ok, yaml_.integer(node["pair_ok"], path + ".pair_ok", 0));
    TS_ASSIGN(counts.heads_ok, yaml_.integer(node["heads_ok"], path + ".heads_ok", 0));
    return {};
  }

  Status read_root(const YAML::Node& root) {
    TS_TRY(yaml_.known_keys(
        root, "the document",
        {"schema", "tiers", "axis_defaults_when_absent", "variant_sections", "summary", "forward", "backward"}));
    TS_TRY(check_schema(yaml_, root["schema"]));
    const AttentionAxes one{{1},
                            {1024},
                            {1024},
                            {16},
                            {16},
                            {128},
                            {128},
                            {DataType::fp16},
                            {MaskKind::none},
                            {BiasKind::none},
                            {0.0},
                            {false},
                            {kNoWindow},
                            {false},
                            {false},
                            {false}};
    defaults_ = one;
    if (const YAML::Node node = root["axis_defaults_when_absent"]; node.IsDefined()) {
      TS_ASSIGN(defaults_, read_axes(node, "axis_defaults_when_absent", one));
    }
    TS_ASSIGN(matrix_.tiers_, Tiers::read(yaml_, root["tiers"]));
    TS_TRY(read_sections(root));
    TS_TRY(read_variants(root["variant_sections"]));
    if (root["summary"].IsDefined()) TS_TRY(check_summary(root["summary"]));
    return {};
  }

  Status read_sections(const YAML::Node& root) {
    const auto sweep = [this](const YAML::Node& node, const std::string& path) { return read_sweep(node, path); };
    for (const char* section : {"forward", "backward"}) {
      if (!root[section].IsDefined()) continue;
      TS_ASSIGN(matrix_.sections_[section], read_section<Sweep>(yaml_, root[section], section, matrix_.tiers_, sweep));
    }
    if (matrix_.sections_.empty()) return yaml_.wrong(root, "the document", "has no sweeps", "forward: [{axes: ...}]");
    return {};
  }

  Status read_variants(const YAML::Node& node) {
    if (!node.IsDefined()) {
      if (matrix_.sections_.contains("forward")) matrix_.variant_sections_["fwd"] = "forward";
      if (matrix_.sections_.contains("backward")) matrix_.variant_sections_["bwd"] = "backward";
      return {};
    }
    TS_TRY(yaml_.map(node, "variant_sections"));
    for (const auto& entry : node) {
      const std::string path = fmt::format("variant_sections.{:.60}", entry.first.as<std::string>());
      TS_ASSIGN(const std::string section, yaml_.string(entry.second, path));
      if (!matrix_.sections_.contains(section))
        return yaml_.wrong(entry.second, path, fmt::format("is '{:.60}'", section),
                           "a section of this file: forward or backward");
      matrix_.variant_sections_.emplace(entry.first.as<std::string>(), section);
    }
    return {};
  }

  // The totals the file gives must be those of its sweeps.
  Status check_summary(const YAML::Node& node) const {
    TS_TRY(yaml_.list(node, "summary"));
    for (std::size_t i = 0; i < node.size(); ++i) {
      const std::string path = fmt::format("summary[{}]", i);
      TS_TRY(yaml_.map(node[i], path));
      TS_TRY(
          yaml_.known_keys(node[i], path, {"section", "tier", "sweeps", "shapes", "distinct", "pair_ok", "heads_ok"}));
      TS_ASSIGN(const std::string section, yaml_.string(node[i]["section"], path + ".section"));
      TS_ASSIGN(const std::string tier, yaml_.string(node[i]["tier"], path + ".tier"));
      Sweep::Counts said, counted;
      TS_TRY(read_counts(node[i], path, said));
      TS_ASSIGN(const std::int64_t said_sweeps, yaml_.integer(node[i]["sweeps"], path + ".sweeps", 0));
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
          return yaml_.wrong(node[i], fmt::format("{}.{}", path, name), fmt::format("is {}", figure.first),
                             fmt::format("the sweeps of {}.{} have {}", section, tier, figure.second));
    }
    return {};
  }

  YamlReader yaml_;
  AttentionAxes defaults_;
  AttentionShapes matrix_;
};

Result<AttentionShapes> AttentionShapes::parse(std::string_view yaml, std::string_view origin) {
  TS_TRY(check_shapes_size(yaml, origin));
  return AttentionShapesReader(origin).read(yaml);
}

Result<AttentionShapes> AttentionShapes::load(const std::filesystem::path& path) {
  TS_ASSIGN(const ShapesFile file, ShapesFile::read(path, "attention_shapes.yaml"));
  return parse(file.text, file.origin);
}

}  // namespace tilesmith
