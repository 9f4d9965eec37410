// Reading a YAML document while checking it: an error names the file, the line, the path in the document, the value
// found, and what would be right.
#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

class YamlReader {
 public:
  /// `origin` begins every error message.
  explicit YamlReader(std::string_view origin) : origin_(origin) {}

  [[nodiscard]] const std::string& origin() const { return origin_; }

  /// Parses the document and hands its root, a map, to `read`. yaml-cpp reports by exceptions; none of them leaves this
  /// function.
  template <class Read>
  [[nodiscard]] Status document(std::string_view yaml, Read read) const {
    try {
      const YAML::Node root = YAML::Load(std::string(yaml));
      TS_TRY(map(root, "the document"));
      return read(root);
    } catch (const YAML::Exception& error) {
      return fail(ErrorCode::parse, fmt::format("{}: line {}: {}", origin_, error.mark.line + 1, error.msg));
    }
  }

  [[nodiscard]] std::unexpected<Error> wrong(const YAML::Node& node, std::string_view path, std::string_view what,
                                             std::string hint) const;
  /// What a node is, for messages: its text, or "a list".
  [[nodiscard]] static std::string text(const YAML::Node& node);

  [[nodiscard]] Status map(const YAML::Node& node, std::string_view path) const;
  [[nodiscard]] Status list(const YAML::Node& node, std::string_view path) const;
  /// Refuses keys that are not listed, and repeated ones.
  [[nodiscard]] Status known_keys(const YAML::Node& node, std::string_view path,
                                  const std::vector<std::string>& known) const;

  [[nodiscard]] Result<std::string> string(const YAML::Node& node, std::string_view path) const;
  /// At most 2^31: larger sizes need other kernels.
  [[nodiscard]] Result<std::int64_t> integer(const YAML::Node& node, std::string_view path, std::int64_t least) const;
  [[nodiscard]] Result<bool> flag(const YAML::Node& node, std::string_view path) const;
  template <TabledEnum E>
  [[nodiscard]] Result<E> enumerator(const YAML::Node& node, std::string_view path) const {
    TS_ASSIGN(const std::string name, string(node, path));
    Result<E> parsed = parse_enum<E>(name);
    if (!parsed) return wrong(node, path, fmt::format("is '{:.60}'", name), parsed.error().hint);
    return *parsed;
  }

  /// The values of a list, which is not empty, each by read_one(node, path).
  template <class Value, class ReadOne>
  [[nodiscard]] Status values(const YAML::Node& node, const std::string& path, std::vector<Value>& values,
                              ReadOne read_one) const {
    TS_TRY(list(node, path));
    if (node.size() == 0) return wrong(node, path, "is empty", "at least one value");
    values.clear();
    for (std::size_t i = 0; i < node.size(); ++i) {
      TS_ASSIGN(Value value, read_one(node[i], fmt::format("{}[{}]", path, i)));
      values.push_back(std::move(value));
    }
    return {};
  }
  /// The values of one axis of a sweep; those already there when the sweep does not name it.
  template <class Value, class ReadOne>
  [[nodiscard]] Status axis(const YAML::Node& axes, const std::string& path, const char* name, std::vector<Value>& into,
                            ReadOne read_one) const {
    const YAML::Node node = axes[name];
    return node.IsDefined() ? values(node, fmt::format("{}.{}", path, name), into, read_one) : Status();
  }

 private:
  std::string origin_;
};

}  // namespace tilesmith
