#include "sweep/tiers.hpp"

#include <algorithm>
#include <span>

#include "base/embedded.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"

namespace tilesmith {

std::span<const EmbeddedFile> embedded_bench_data();

namespace {

constexpr std::uint64_t kFileLimit = 4 << 20;
constexpr std::int64_t kShapeLimit = 10'000'000;
constexpr int kTimeout = 60;

}  // namespace

Result<Tiers> Tiers::read(const YamlReader& reader, const YAML::Node& node) {
  Tiers out;
  if (!node.IsDefined()) {
    out.tiers_ = {{"smoke", {{"smoke"}, kTimeout}},
                  {"full", {{"smoke", "full"}, 300}},
                  {"nightly", {{"smoke", "full", "nightly"}, 600}}};
    return out;
  }
  TS_TRY(reader.map(node, "tiers"));
  for (const auto& entry : node) {
    const auto name = entry.first.as<std::string>();
    const std::string path = fmt::format("tiers.{:.60}", name);
    TS_TRY(reader.map(entry.second, path));
    TS_TRY(reader.known_keys(entry.second, path, {"includes", "timeout_s", "note"}));
    Tier tier;
    std::int64_t seconds = kTimeout;
    if (const YAML::Node timeout = entry.second["timeout_s"]; timeout.IsDefined()) {
      TS_ASSIGN(seconds, reader.integer(timeout, path + ".timeout_s", 1));
    }
    tier.timeout_s = static_cast<int>(std::min<std::int64_t>(seconds, 1 << 30));
    const YAML::Node includes = entry.second["includes"];
    if (!includes.IsDefined()) {
      tier.includes.push_back(name);
      out.tiers_.emplace(name, std::move(tier));
      continue;
    }
    TS_TRY(reader.list(includes, path + ".includes"));
    for (std::size_t i = 0; i < includes.size(); ++i) {
      const std::string at = fmt::format("{}.includes[{}]", path, i);
      TS_ASSIGN(const std::string included, reader.string(includes[i], at));
      if (!node[included].IsDefined())
        return reader.wrong(includes[i], at, fmt::format("is '{:.60}'", included), "the name of a tier");
      tier.includes.push_back(included);
    }
    out.tiers_.emplace(name, std::move(tier));
  }
  return out;
}

Result<const Tier*> Tiers::named(std::string_view name) const {
  if (const auto found = tiers_.find(name); found != tiers_.end()) return &found->second;
  std::vector<std::string> known;
  for (const auto& [each, tier] : tiers_) known.push_back(each);
  return fail(ErrorCode::invalid_argument, fmt::format("there is no tier '{}'", name), did_you_mean(name, known));
}

Status check_schema(const YamlReader& reader, const YAML::Node& node) {
  if (!node.IsDefined()) return {};
  TS_ASSIGN(const std::int64_t schema, reader.integer(node, "schema", 0));
  if (schema == 1) return {};
  return reader.wrong(node, "schema", fmt::format("is {}", schema), "1, which may be left out");
}

Result<std::string> sweep_id(const YamlReader& reader, const YAML::Node& sweep, const std::string& path) {
  if (const YAML::Node id = sweep["id"]; id.IsDefined()) return reader.string(id, path + ".id");
  return path;
}

Result<ShapesFile> ShapesFile::read(const std::filesystem::path& path, std::string_view builtin) {
  if (!path.empty()) {
    TS_ASSIGN(std::string text, read_file(path, kFileLimit));
    return ShapesFile{std::move(text), path.string()};
  }
  for (const EmbeddedFile& file : embedded_bench_data())
    if (file.path == builtin) return ShapesFile{std::string(file.text), fmt::format("the built-in {}", builtin)};
  return fail(ErrorCode::internal, fmt::format("{} is not part of this build", builtin));
}

Status check_shapes_size(std::string_view yaml, std::string_view origin) {
  if (yaml.size() <= kFileLimit) return {};
  return fail(ErrorCode::parse, fmt::format("{} has {} bytes", origin, yaml.size()),
              fmt::format("at most {}", kFileLimit));
}

Status check_sweep_size(const YamlReader& reader, const YAML::Node& node, std::string_view path, std::int64_t shapes) {
  if (shapes <= kShapeLimit) return {};
  return reader.wrong(node, path, fmt::format("has {} shapes", shapes), fmt::format("at most {}", kShapeLimit));
}

}  // namespace tilesmith
