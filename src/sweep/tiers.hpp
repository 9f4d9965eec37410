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
  /// {smoke: {includes: [smoke], timeout_s: 60, note: "..."}, ...}
  [[nodiscard]] static Result<Tiers> read(const YamlReader& reader, const YAML::Node& node);

  [[nodiscard]] Result<const Tier*> named(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return tiers_.contains(name); }

 private:
  std::map<std::string, Tier, std::less<>> tiers_;
};

/// Sweeps by tier, in file order.
template <class Sweep>
using TieredSweeps = std::map<std::string, std::vector<Sweep>, std::less<>>;

/// A section of the file: {smoke: [sweep, ...], full: [...]}, each sweep by read_one(node, path).
template <class Sweep, class ReadOne>
[[nodiscard]] Result<TieredSweeps<Sweep>> read_section(const YamlReader& reader, const YAML::Node& node,
                                                       const std::string& section, const Tiers& tiers,
                                                       ReadOne read_one) {
  TS_TRY(reader.map(node, section));
  TieredSweeps<Sweep> out;
  for (const auto& tier : node) {
    const auto name = tier.first.as<std::string>();
    const std::string path = fmt::format("{}.{:.60}", section, name);
    if (!tiers.has(name))
      return fail(ErrorCode::parse, fmt::format("{}: {} has the tier '{}'", reader.origin(), section, name),
                  "a tier of 'tiers'");
    if (out.contains(name)) return reader.wrong(tier.first, path, "is there twice", "once");
    TS_TRY(reader.list(tier.second, path));
    std::vector<Sweep>& sweeps = out[name];
    for (std::size_t i = 0; i < tier.second.size(); ++i) {
      TS_ASSIGN(Sweep sweep, read_one(tier.second[i], fmt::format("{}[{}]", path, i)));
      sweeps.push_back(std::move(sweep));
    }
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
