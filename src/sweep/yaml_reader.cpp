#include "sweep/yaml_reader.hpp"

#include <algorithm>

#include "base/nearest.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kSizeLimit = std::int64_t{1} << 31;

/// An absent node may be asked for nothing else.
YAML::NodeType::value kind_of(const YAML::Node& node) {
  return node.IsDefined() ? node.Type() : YAML::NodeType::Undefined;
}

}  // namespace

std::unexpected<Error> YamlReader::wrong(const YAML::Node& node, std::string_view path, std::string_view what,
                                         std::string hint) const {
  const std::string line = node.IsDefined() ? fmt::format("line {}: ", node.Mark().line + 1) : "";
  return fail(ErrorCode::parse, fmt::format("{}: {}{} {}", origin_, line, path, what), std::move(hint));
}

std::string YamlReader::text(const YAML::Node& node) {
  switch (kind_of(node)) {
    case YAML::NodeType::Scalar:
      return fmt::format("'{:.60}'", node.Scalar());
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a map";
    default:
      return "nothing";
  }
}

Status YamlReader::map(const YAML::Node& node, std::string_view path) const {
  if (kind_of(node) == YAML::NodeType::Map) return {};
  return wrong(node, path, fmt::format("is {}", text(node)), "a map");
}

Status YamlReader::list(const YAML::Node& node, std::string_view path) const {
  if (kind_of(node) == YAML::NodeType::Sequence) return {};
  return wrong(node, path, fmt::format("is {}", text(node)), "a list");
}

Status YamlReader::known_keys(const YAML::Node& node, std::string_view path,
                              const std::vector<std::string>& known) const {
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

Result<std::string> YamlReader::string(const YAML::Node& node, std::string_view path) const {
  if (kind_of(node) != YAML::NodeType::Scalar || node.Scalar().empty())
    return wrong(node, path, fmt::format("is {}", text(node)), "a word");
  return node.Scalar();
}

Result<std::int64_t> YamlReader::integer(const YAML::Node& node, std::string_view path, std::int64_t least) const {
  std::int64_t value = 0;
  if (kind_of(node) != YAML::NodeType::Scalar || !YAML::convert<std::int64_t>::decode(node, value) || value < least ||
      value > kSizeLimit)
    return wrong(node, path, fmt::format("is {}", text(node)),
                 fmt::format("a whole number from {} to {}", least, kSizeLimit));
  return value;
}

Result<bool> YamlReader::flag(const YAML::Node& node, std::string_view path) const {
  bool on = false;
  if (kind_of(node) != YAML::NodeType::Scalar || !YAML::convert<bool>::decode(node, on))
    return wrong(node, path, fmt::format("is {}", text(node)), "true or false");
  return on;
}

}  // namespace tilesmith
