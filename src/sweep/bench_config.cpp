#include "sweep/bench_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "problem/describe.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {
namespace {

/// Something of an object by which a sweep picks: how a file writes a value of it, as canonical text, and the object's.
template <class Object>
struct Trait {
  std::string name;
  std::function<Result<std::string>(const JsonReader&)> read;
  std::function<std::string(const Object&)> text;
};
template <class Object>
using Traits = std::vector<Trait<Object>>;

template <class T>
std::string canonical(const T& value) {
  std::string text;
  append_value(text, value);
  return text;
}

Result<std::string> read_integer(const JsonReader& reader, std::int64_t least, std::int64_t most) {
  TS_ASSIGN(const std::int64_t value, reader.integer(least, most));
  return canonical(value);
}

/// A value of a field, as files of sweeps write it: epilogues with their operations joined by +, as tables show them.
template <class F>
Result<std::string> read_field(const JsonReader& reader) {
  if constexpr (FlagField<F>) {
    TS_ASSIGN(const bool value, reader.boolean());
    return canonical(value);
  } else if constexpr (IntegerField<F>) {
    return read_integer(reader, -1, std::int64_t{1} << 31);  // -1: a window's open end; no size is larger
  } else if constexpr (EnumField<F>) {
    TS_ASSIGN(const F value, reader.enumerator<F>());
    return canonical(value);
  } else {
    static_assert(ListField<F>);
    TS_ASSIGN(const std::string text, reader.string());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('+', at), text.size());
      const auto element = parse_enum<typename F::value_type>(std::string_view(text).substr(at, end - at));
      if (!element) return reader.refuse(element.error().hint);
      at = end + 1;
    }
    return text;
  }
}

/// The object's field of this name as text.
template <class Struct>
std::string field_text(const Struct& object, std::string_view name) {
  std::string text;
  Struct::fields(object, [&](std::string_view field, const auto& value) {
    if (field == name) text = canonical(value);
  });
  return text;
}

template <class Object>
const Trait<Object>* find_trait(const Traits<Object>& traits, std::string_view name) {
  const auto found = std::ranges::find(traits, name, &Trait<Object>::name);
  return found == traits.end() ? nullptr : &*found;
}

/// Gives a trait a further name.
template <class Object>
void also_called(Traits<Object>& traits, std::string name, std::string_view field) {
  Trait<Object> trait = *find_trait(traits, field);
  trait.name = std::move(name);
  traits.push_back(std::move(trait));
}

void add_other_traits(Traits<AttentionProblem>&) {}
void add_other_traits(Traits<AttentionBackwardProblem>&) {}
void add_other_traits(Traits<ConvProblem>&) {}

void add_other_traits(Traits<GemmProblem>& traits) {
  also_called(traits, "data_type", "type_a");
  also_called(traits, "output_type", "type_d");
  traits.push_back({.name = "layout",
                    .read = [](const JsonReader& reader) -> Result<std::string> {
                      TS_ASSIGN(std::string text, reader.string());
                      GemmProblem problem;
                      if (const Status set = set_layout(problem, text); !set) return reader.refuse(set.error().hint);
                      return text;
                    },
                    .text = layout_of});
}

template <class Problem>
const Traits<Problem>& traits_of_problem() {
  static const Traits<Problem> traits = [] {
    Traits<Problem> out;
    const Problem usual{};
    Problem::fields(usual, [&]<class F>(std::string_view name, const F&) {
      out.push_back({.name = std::string(name), .read = read_field<F>, .text = [name](const Problem& problem) {
                       return field_text(problem, name);
                     }});
    });
    add_other_traits(out);
    return out;
  }();
  return traits;
}

const Traits<KernelConfig>& traits_of_kernel() {
  static const Traits<KernelConfig> traits = [] {
    Traits<KernelConfig> out;
    out.push_back({.name = "arch",
                   .read = [](const JsonReader& reader) { return reader.string(); },
                   .text = [](const KernelConfig& config) { return std::string(config.arch.text()); }});
    for (const auto& [name, at] : {std::pair{"tile_m", 0}, {"tile_n", 1}, {"tile_k", 2}})
      out.push_back({.name = name,
                     .read = [](const JsonReader& reader) { return read_integer(reader, 0, 65535); },
                     .text =
                         [at](const KernelConfig& config) {
                           return canonical(config.algorithm.tile[static_cast<std::size_t>(at)]);
                         }});
    const Algorithm usual{};
    Algorithm::fields(usual, [&]<class F>(std::string_view name, const F&) {
      if constexpr (!ArrayField<F>)
        out.push_back({.name = std::string(name), .read = read_field<F>, .text = [name](const KernelConfig& config) {
                         return field_text(config.algorithm, name);
                       }});
    });
    return out;
  }();
  return traits;
}

/// A trait of the operation's problems or, where they have none of the name, of its kernels.
struct FoundTrait {
  std::function<Result<std::string>(const JsonReader&)> read{};  ///< empty: there is none
  bool of_problem = false;
};

template <class Problem>
FoundTrait find_trait_of(std::string_view name) {
  if (const auto* trait = find_trait(traits_of_problem<Problem>(), name)) return {trait->read, true};
  if (const auto* trait = find_trait(traits_of_kernel(), name)) return {trait->read, false};
  return {};
}

template <class Problem>
std::vector<std::string> names_of_traits() {
  std::vector<std::string> names;
  for (const auto& trait : traits_of_problem<Problem>()) names.push_back(trait.name);
  for (const auto& trait : traits_of_kernel()) names.push_back(trait.name);
  return names;
}

}  // namespace

Result<BenchConfig> BenchConfig::parse(RowChoice operation, std::string_view file, std::string_view text) {
  FoundTrait (*find)(std::string_view) = nullptr;
  std::vector<std::string> known;
  for_each_operation([&]<class Op>(Op) {
    if (!operation.is<Op>()) return;
    find = find_trait_of<typename Op::Problem>;
    known = names_of_traits<typename Op::Problem>();
  });
  if (find == nullptr)
    return fail(ErrorCode::unsupported, fmt::format("no bench runs {}", operation.name()),
                "attention_fwd, attention_bwd, gemm or conv");
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"variant", "trait_config"}));
  if (root.has("variant") && !operation.is<AttentionFwd>())
    return root.at("variant").refuse("no variant: this operation has none");
  if (root.has("variant")) {
    TS_ASSIGN(const std::string variant, root.at("variant").string());
    if (variant != "fwd") return root.at("variant").refuse("\"fwd\": the variant that runs here");
  }
  BenchConfig config;
  if (!root.has("trait_config")) return config;
  TS_ASSIGN(const auto members, root.at("trait_config").members());
  for (const auto& [name, reader] : members) {
    const FoundTrait trait = find(name);
    if (!trait.read)
      return fail(ErrorCode::parse, fmt::format("{} is no trait of a bench of {}", reader.place(), operation.name()),
                  did_you_mean(name, known));
    TS_TRY(reader.only({"values"}));
    TS_ASSIGN(const auto values, reader.at("values").elements());
    if (values.empty()) return reader.at("values").refuse("at least one value; leave the trait out to allow all");
    Allowed allowed{name, trait.of_problem, {}};
    for (const JsonReader& value : values) {
      TS_ASSIGN(std::string canonical_text, trait.read(value));
      allowed.values.push_back(std::move(canonical_text));
    }
    config.allowed_.push_back(std::move(allowed));
  }
  return config;
}

template <class Traits, class Object>
bool BenchConfig::allows_by(const Traits& traits, const Object& object, bool of_problem) const {
  return std::ranges::all_of(allowed_, [&](const Allowed& allowed) {
    if (allowed.of_problem != of_problem) return true;
    const auto* trait = find_trait(traits, allowed.trait);
    return trait == nullptr || std::ranges::find(allowed.values, trait->text(object)) != allowed.values.end();
  });
}

bool BenchConfig::allows(const AnyProblem& problem) const {
  return std::visit([this]<class P>(const P& each) { return allows_by(traits_of_problem<P>(), each, true); }, problem);
}

bool BenchConfig::allows(const Recipe& recipe) const {
  return std::ranges::all_of(recipe.steps, [this](const Step& step) { return allows(step.config); });
}

bool BenchConfig::allows(const KernelConfig& config) const {
  return allows_by(traits_of_kernel(), config, false);
}

}  // namespace tilesmith
