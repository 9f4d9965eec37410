// Axes of a shapes file that are fields of the problem by their own names: those that no axis of another name or form
// sets. So a field that is added to a problem is an axis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "problem/fields.hpp"
#include "sweep/yaml_reader.hpp"

namespace tilesmith {

template <class Problem>
class FieldAxes {
 public:
  /// The names of all axes but the covered fields.
  [[nodiscard]] static std::vector<std::string> names(const std::vector<std::string>& covered) {
    std::vector<std::string> out;
    const Problem usual{};
    Problem::fields(usual, [&](std::string_view name, const auto&) {
      if (std::ranges::find(covered, name) == covered.end()) out.emplace_back(name);
    });
    return out;
  }

  /// Reads those of `names` that the map `axes` has; one that was read before is replaced.
  [[nodiscard]] Status read(const YamlReader& yaml, const YAML::Node& axes, const std::string& path,
                            const std::vector<std::string>& names) {
    Status status;
    const Problem usual{};
    Problem::fields(usual, [&]<class F>(std::string_view field, const F&) {
      const std::string name(field);
      if (!status || std::ranges::find(names, name) == names.end() || !axes[name].IsDefined()) return;
      std::vector<F> values;
      status = yaml.axis(axes, path, name.c_str(), values,
                         [&](const YAML::Node& node, const std::string& at) { return read_value<F>(yaml, node, at); });
      if (!status) return;
      std::erase_if(axes_, [&](const Axis& axis) { return axis.name == name; });
      Axis& axis = axes_.emplace_back(Axis{name, {}});
      for (const F& value : values) axis.values.push_back(setter(name, value));
    });
    return status;
  }

  /// How many values each axis has.
  [[nodiscard]] std::vector<std::size_t> counts() const {
    std::vector<std::size_t> out;
    for (const Axis& axis : axes_) out.push_back(axis.values.size());
    return out;
  }

  using Set = std::function<void(Problem&)>;

  /// What sets the fields to the values at `index`, whose lowest digits these axes are; what is left of it stays.
  [[nodiscard]] std::vector<Set> pick(std::int64_t& index) const {
    std::vector<Set> out;
    for (const Axis& axis : axes_) {
      out.push_back(axis.values[static_cast<std::size_t>(index) % axis.values.size()]);
      index /= static_cast<std::int64_t>(axis.values.size());
    }
    return out;
  }

 private:
  struct Axis {
    std::string name;
    std::vector<Set> values;
  };

  template <class F>
  [[nodiscard]] static Result<F> read_value(const YamlReader& yaml, const YAML::Node& node, const std::string& at) {
    if constexpr (FlagField<F>) {
      return yaml.flag(node, at);
    } else if constexpr (IntegerField<F>) {
      return yaml.integer(node, at, -1);  // -1: a window's open end
    } else if constexpr (EnumField<F>) {
      return yaml.enumerator<F>(node, at);
    } else {
      static_assert(ListField<F>);
      TS_TRY(yaml.list(node, at));
      F list{};
      for (std::size_t i = 0; i < node.size(); ++i) {
        TS_ASSIGN(const auto element, yaml.enumerator<typename F::value_type>(node[i], at));
        if (!list.push_back(element))
          return yaml.wrong(node[i], at, "is one too many", fmt::format("at most {}", F::kMax));
      }
      return list;
    }
  }

  template <class F>
  [[nodiscard]] static Set setter(const std::string& name, const F& value) {
    return [name, value](Problem& problem) {
      Problem::fields(problem, [&]<class G>(std::string_view field, G& into) {
        if constexpr (std::is_same_v<F, G>)
          if (field == name) into = value;
      });
    };
  }

  std::vector<Axis> axes_;
};

}  // namespace tilesmith
