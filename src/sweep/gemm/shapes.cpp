#include "sweep/gemm/shapes.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "problem/derive.hpp"
#include "problem/describe.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

const std::vector<std::string> kAxes = {
    "batch",           "m",        "n",      "k",        "nk",   "mnk",        "k2",          "dtype",       "dtype_b",
    "dtype_out",       "grouping", "layout", "epilogue", "beta", "group_size", "dtype_scale", "zero_points", "packed",
    "prefetch_weights"};
/// The fields that these axes set.
const std::vector<std::string> kCovered = {
    "type_a",   "type_b",      "type_d",          "order_a", "order_b",  "order_d",  "m",          "n",
    "k",        "k2",          "batch",           "beta",    "epilogue", "grouping", "group_size", "type_scale",
    "packed_b", "zero_points", "prefetch_weights"};

}  // namespace

/// Everything is checked while it is read, so that what reads it later cannot fail.
class GemmShapesReader {
 public:
  explicit GemmShapesReader(std::string_view origin) : yaml_(origin) {}

  Result<GemmShapes> read(std::string_view text) {
    TS_TRY(yaml_.document(text, [this](const YAML::Node& root) { return read_root(root); }));
    return std::move(shapes_);
  }

 private:
  using Node = YAML::Node;

  Status read_root(const Node& root) {
    TS_TRY(yaml_.known_keys(root, "the document", {"schema", "tiers", "axis_defaults_when_absent", "gemm"}));
    TS_TRY(check_schema(yaml_, root["schema"]));
    if (const Node node = root["axis_defaults_when_absent"]; node.IsDefined()) {
      TS_ASSIGN(defaults_, read_axes(node, "axis_defaults_when_absent", {}));
    }
    TS_ASSIGN(shapes_.tiers_, Tiers::read(yaml_, root["tiers"]));
    const auto sweep = [this](const Node& node, const std::string& path) { return read_sweep(node, path); };
    TS_ASSIGN(shapes_.sweeps_, read_section<GemmShapeSweep>(yaml_, root["gemm"], "gemm", shapes_.tiers_, sweep));
    return {};
  }

  Result<GemmShapeSweep> read_sweep(const Node& node, const std::string& path) const {
    TS_TRY(yaml_.map(node, path));
    TS_TRY(yaml_.known_keys(node, path, {"id", "axes", "about"}));
    GemmShapeSweep sweep;
    TS_ASSIGN(sweep.id, sweep_id(yaml_, node, path));
    if (node["about"].IsDefined()) {
      TS_ASSIGN(sweep.about, yaml_.string(node["about"], path + ".about"));
    }
    TS_ASSIGN(sweep.axes, read_axes(node["axes"], path + ".axes", defaults_));
    TS_TRY(check_sweep_size(yaml_, node, path, sweep.size()));
    return sweep;
  }

  /// Reads one size.
  auto size() const {
    return [this](const Node& value, const std::string& at) { return yaml_.integer(value, at, 1); };
  }
  auto none_or_size() const {
    return [this](const Node& value, const std::string& at) { return yaml_.integer(value, at, 0); };
  }

  /// Reads a list of N sizes.
  template <std::size_t N>
  auto tuple() const {
    return [this](const Node& value, const std::string& at) -> Result<std::array<std::int64_t, N>> {
      std::vector<std::int64_t> sizes;
      TS_TRY(yaml_.values(value, at, sizes, size()));
      if (sizes.size() != N)
        return yaml_.wrong(value, at, fmt::format("has {} sizes", sizes.size()), fmt::format("{} of them", N));
      std::array<std::int64_t, N> out{};
      std::ranges::copy(sizes, out.begin());
      return out;
    };
  }

  Result<GemmAxes> read_axes(const Node& node, const std::string& path, GemmAxes axes) const {
    TS_TRY(yaml_.map(node, path));
    const std::vector<std::string> others = FieldAxes<GemmProblem>::names(kCovered);
    std::vector<std::string> known = kAxes;
    known.insert(known.end(), others.begin(), others.end());
    TS_TRY(yaml_.known_keys(node, path, known));
    TS_TRY(axes.others.read(yaml_, node, path, others));
    TS_TRY(read_sizes(node, path, axes.mnk));
    const auto type = [this](const Node& value, const std::string& at) {
      return yaml_.enumerator<DataType>(value, at);
    };
    TS_TRY(yaml_.axis(node, path, "batch", axes.batch, size()));
    TS_TRY(yaml_.axis(node, path, "dtype", axes.dtype, type));
    TS_TRY(yaml_.axis(node, path, "dtype_b", axes.dtype_b, type));
    TS_TRY(yaml_.axis(node, path, "dtype_out", axes.dtype_out, type));
    TS_TRY(yaml_.axis(node, path, "grouping", axes.grouping, [this](const Node& value, const std::string& at) {
      return yaml_.enumerator<GemmGrouping>(value, at);
    }));
    TS_TRY(yaml_.axis(node, path, "k2", axes.k2, none_or_size()));
    TS_TRY(yaml_.axis(node, path, "group_size", axes.group_size, none_or_size()));
    TS_TRY(yaml_.axis(node, path, "dtype_scale", axes.dtype_scale, type));
    const auto flag = [this](const Node& value, const std::string& at) { return yaml_.flag(value, at); };
    TS_TRY(yaml_.axis(node, path, "zero_points", axes.zero_points, flag));
    TS_TRY(yaml_.axis(node, path, "packed", axes.packed, flag));
    TS_TRY(yaml_.axis(node, path, "prefetch_weights", axes.prefetch_weights, flag));
    TS_TRY(yaml_.axis(node, path, "layout", axes.layout,
                      [this](const Node& value, const std::string& at) { return read_layout(value, at); }));
    TS_TRY(yaml_.axis(node, path, "epilogue", axes.epilogue,
                      [this](const Node& value, const std::string& at) { return read_epilogue(value, at); }));
    TS_TRY(yaml_.axis(node, path, "beta", axes.beta, flag));
    return axes;
  }

  /// mnk: [[m, n, k], ...], or m crossed with nk: [[n, k], ...], or m, n and k crossed.
  Status read_sizes(const Node& node, const std::string& path, std::vector<std::array<std::int64_t, 3>>& mnk) const {
    const auto has = [&](const char* name) { return node[name].IsDefined(); };
    if (!has("mnk") && !has("nk") && !has("m") && !has("n") && !has("k")) return {};
    const bool separate = has("n") || has("k");
    if (has("mnk") ? has("m") || has("nk") || separate : !has("m") || has("nk") == separate || has("n") != has("k"))
      return yaml_.wrong(node, path, "has sizes that do not fit together", "mnk, or m and nk, or m, n and k");
    if (has("mnk")) return yaml_.axis(node, path, "mnk", mnk, tuple<3>());

    std::vector<std::int64_t> m, n, k;
    std::vector<std::array<std::int64_t, 2>> nk;
    TS_TRY(yaml_.axis(node, path, "m", m, size()));
    TS_TRY(yaml_.axis(node, path, "n", n, size()));
    TS_TRY(yaml_.axis(node, path, "k", k, size()));
    TS_TRY(yaml_.axis(node, path, "nk", nk, tuple<2>()));
    for (const std::int64_t columns : n)
      for (const std::int64_t depth : k) nk.push_back({columns, depth});
    TS_TRY(check_sweep_size(yaml_, node, path, static_cast<std::int64_t>(m.size() * nk.size())));
    mnk.clear();
    for (const std::int64_t rows : m)
      for (const auto& [columns, depth] : nk) mnk.push_back({rows, columns, depth});
    return {};
  }

  Result<GemmAxes::Orders> read_layout(const Node& value, const std::string& at) const {
    TS_ASSIGN(const std::string text, yaml_.string(value, at));
    GemmProblem problem;
    if (const Status set = set_layout(problem, text); !set)
      return yaml_.wrong(value, at, fmt::format("is '{:.60}'", text), set.error().hint);
    return GemmAxes::Orders{problem.order_a, problem.order_b, problem.order_d};
  }

  Result<GemmEpilogue> read_epilogue(const Node& value, const std::string& at) const {
    TS_TRY(yaml_.list(value, at));
    GemmEpilogue epilogue;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string here = fmt::format("{}[{}]", at, i);
      TS_ASSIGN(const EpilogueOp op, yaml_.enumerator<EpilogueOp>(value[i], here));
      if (!epilogue.push_back(op))
        return yaml_.wrong(value[i], here, fmt::format("is '{}'", name_of(op)),
                           fmt::format("at most {} operations, and [] for none", GemmEpilogue::kMax));
    }
    return epilogue;
  }

  YamlReader yaml_;
  GemmAxes defaults_;
  GemmShapes shapes_;
};

std::int64_t GemmShapeSweep::size() const {
  std::vector<std::size_t> counts = axes.others.counts();
  for (const std::size_t count :
       {axes.batch.size(), axes.mnk.size(), axes.k2.size(), axes.dtype.size(), axes.dtype_b.size(),
        axes.dtype_out.size(), axes.grouping.size(), axes.group_size.size(), axes.dtype_scale.size(),
        axes.zero_points.size(), axes.packed.size(), axes.prefetch_weights.size(), axes.layout.size(),
        axes.epilogue.size(), axes.beta.size()})
    counts.push_back(count);
  std::int64_t product = 1;
  for (const std::size_t count : counts)
    if (__builtin_mul_overflow(product, static_cast<std::int64_t>(count), &product))
      return std::numeric_limits<std::int64_t>::max();
  return product;
}

void GemmShapeSweep::for_each(FunctionRef<void(const GemmProblem&)> visit) const {
  const std::int64_t count = size();
  for (std::int64_t index = 0; index < count; ++index) {
    std::int64_t rest = index;
    const auto others = axes.others.pick(rest);  // the last axes run fastest
    const auto pick = [&rest](const auto& values) {
      const auto at = static_cast<std::size_t>(rest) % values.size();
      rest /= static_cast<std::int64_t>(values.size());
      return values[at];
    };
    const bool beta = pick(axes.beta);
    const GemmEpilogue epilogue = pick(axes.epilogue);
    const GemmAxes::Orders layout = pick(axes.layout);
    const bool prefetch_weights = pick(axes.prefetch_weights);
    const bool packed = pick(axes.packed);
    const bool zero_points = pick(axes.zero_points);
    const DataType type_scale = pick(axes.dtype_scale);
    const std::int64_t group_size = pick(axes.group_size);
    const GemmGrouping grouping = pick(axes.grouping);
    const std::optional<DataType> output = pick(axes.dtype_out), type_b = pick(axes.dtype_b);
    const DataType type = pick(axes.dtype);
    const std::int64_t k2 = pick(axes.k2);
    const auto [m, n, k] = pick(axes.mnk);
    GemmProblem problem = gemm_problem(type, m, n, k, output);
    problem.k2 = k2;
    problem.batch = pick(axes.batch);
    problem.type_b = type_b.value_or(type);
    problem.grouping = grouping;
    problem.group_size = group_size;
    problem.type_scale = type_scale;
    problem.zero_points = zero_points;
    problem.packed_b = packed;
    problem.prefetch_weights = prefetch_weights;
    problem.order_a = layout.a;
    problem.order_b = layout.b;
    problem.order_d = layout.d;
    problem.epilogue = epilogue;
    problem.beta = beta;
    for (const auto& set : others) set(problem);
    visit(problem);
  }
}

Result<GemmShapes> GemmShapes::parse(std::string_view yaml, std::string_view origin) {
  TS_TRY(check_shapes_size(yaml, origin));
  return GemmShapesReader(origin).read(yaml);
}

Result<GemmShapes> GemmShapes::load(const std::filesystem::path& path) {
  TS_ASSIGN(const ShapesFile file, ShapesFile::read(path, "gemm_shapes.yaml"));
  return parse(file.text, file.origin);
}

Result<std::vector<const GemmShapeSweep*>> GemmShapes::sweeps(std::string_view tier) const {
  TS_ASSIGN(const Tier* named, tiers_.named(tier));
  return sweeps_of(sweeps_, *named);
}

Result<int> GemmShapes::timeout_s(std::string_view tier) const {
  TS_ASSIGN(const Tier* named, tiers_.named(tier));
  return named->timeout_s;
}

Result<std::vector<GemmProblem>> load_gemm_problems(const std::filesystem::path& path, std::string_view tier,
                                                    Shard shard) {
  TS_ASSIGN(const GemmShapes shapes, GemmShapes::load(path));
  TS_ASSIGN(const std::vector<const GemmShapeSweep*> sweeps, shapes.sweeps(tier));
  std::vector<GemmProblem> problems;
  std::unordered_set<std::string> seen;
  for (const GemmShapeSweep* sweep : sweeps)
    sweep->for_each([&](const GemmProblem& problem) {
      if (shard.has(describe(problem)) && seen.insert(identity_of(problem)).second)
        problems.push_back(with_derived_fields(problem));
    });
  return problems;
}

}  // namespace tilesmith
