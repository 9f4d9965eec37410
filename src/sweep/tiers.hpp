// Tiers of growing cost (smoke, full, nightly) that the sweeps of a shapes file stand in, and the files themselves.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "sweep/yaml_reader.hpp"

namespace tilesmith {

struct Tier {
  std::vector<std::string> includes;  ///< tiers whose sweeps it has, its own perhaps among them
  int timeout_s = 0;                  ///< how long one kernel may take on one shape
};

class Tiers {
 public:
  /// {smoke: {includes: [smoke], timeout_s: 60, note: "..."}, ...}. Absent, they are those of the built-in files; a
  /// tier without `includes` has its own sweeps, one without `timeout_s` a minute.
  [[nodiscard]] static Result<Tiers> read(const YamlReader& reader, const YAML::Node& node);

  [[nodiscard]] Result<const Tier*> named(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return tiers_.contains(name); }

 private:
  std::map<std::string, Tier, std::less<>> tiers_;
};

/// Sweeps by tier, in file order.
template <class Sweep>
using TieredSweeps = std::map<std::string, std::vector<Sweep>, std::less<>>;

/// The number of the form of shapes files, if a file says it: 1.
[[nodiscard]] Status check_schema(const YamlReader& reader, const YAML::Node& node);

/// A sweep's name; without one its place in the file.
[[nodiscard]] Result<std::string> sweep_id(const YamlReader& reader, const YAML::Node& sweep, const std::string& path);

/// A section of the file: {smoke: [sweep, ...], full: [...]}, or a list, which is the smoke tier's; each sweep by
/// read_one(node, path).
template <class Sweep, class ReadOne>
[[nodiscard]] Result<TieredSweeps<Sweep>> read_section(const YamlReader& reader, const YAML::Node& node,
                                                       const std::string& section, const Tiers& tiers,
                                                       ReadOne read_one) {
  TieredSweeps<Sweep> out;
  const auto read_all = [&](const YAML::Node& list, const std::string& path, std::vector<Sweep>& into) -> Status {
    TS_TRY(reader.list(list, path));
    for (std::size_t i = 0; i < list.size(); ++i) {
      TS_ASSIGN(Sweep sweep, read_one(list[i], fmt::format("{}[{}]", path, i)));
      into.push_back(std::move(sweep));
    }
    return {};
  };
  if (node.IsDefined() && node.IsSequence() && tiers.has("smoke")) {
    TS_TRY(read_all(node, section, out["smoke"]));
    return out;
  }
  TS_TRY(reader.map(node, section));
  for (const auto& tier : node) {
    const auto name = tier.first.as<std::string>();
    const std::string path = fmt::format("{}.{:.60}", section, name);
    if (!tiers.has(name))
      return fail(ErrorCode::parse, fmt::format("{}: {} has the tier '{}'", reader.origin(), section, name),
                  "a tier of 'tiers'");
    if (out.contains(name)) return reader.wrong(tier.first, path, "is there twice", "once");
    TS_TRY(read_all(tier.second, path, out[name]));
  }
  return out;
}

/// The sweeps of a tier and of those it includes.
template <class Sweep>
[[nodiscard]] std::vector<const Sweep*> sweeps_of(const TieredSweeps<Sweep>& section, const Tier& tier) {
  std::vector<const Sweep*> found;
  for (const std::string& included : tier.includes) {
    const auto sweeps = section.find(included);
    if (sweeps == section.end()) continue;  // a tier may add nothing to a section
    for (const Sweep& sweep : sweeps->second) found.push_back(&sweep);
  }
  return found;
}

/// The text of a shapes file of at most 4 MiB; the one compiled into the library when `path` is empty.
struct ShapesFile {
  std::string text;
  std::string origin;

  [[nodiscard]] static Result<ShapesFile> read(const std::filesystem::path& path, std::string_view builtin);
};

/// Refuses a text longer than a shapes file may be.
[[nodiscard]] Status check_shapes_size(std::string_view yaml, std::string_view origin);

/// Refuses a sweep of more than ten million shapes.
[[nodiscard]] Status check_sweep_size(const YamlReader& reader, const YAML::Node& node, std::string_view path,
                                      std::int64_t shapes);

}  // namespace tilesmith
