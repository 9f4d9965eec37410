// KernelConfig to and from JSON, derived from the field lists.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/nearest.hpp"
#include "vocabulary/config.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

template <class T>
json value_to_json(const T& value) {
  if constexpr (EnumField<T>) {
    return name_of(value);
  } else if constexpr (ListField<T>) {
    json list = json::array();
    for (const auto element : value) list.push_back(name_of(element));
    return list;
  } else {
    return value;
  }
}

template <class T>
Status read_integer(const json& from, const std::string& path, T& value) {
  using Limits = std::numeric_limits<T>;
  const auto wrong = [&] {
    return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown(from)),
                fmt::format("an integer from {} to {}", static_cast<long long>(Limits::min()),
                            static_cast<long long>(Limits::max())));
  };
  if (!from.is_number_integer()) return wrong();
  if (from.is_number_unsigned() && from.get<std::uint64_t>() > static_cast<std::uint64_t>(Limits::max()))
    return wrong();
  const auto number = from.get<std::int64_t>();
  if (number < static_cast<std::int64_t>(Limits::min()) || number > static_cast<std::int64_t>(Limits::max()))
    return wrong();
  value = static_cast<T>(number);
  return {};
}

template <class T>
Status read_value(const json& from, const std::string& path, T& value) {
  if constexpr (FlagField<T>) {
    if (!from.is_boolean()) return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown(from)), "true or false");
    value = from.get<bool>();
    return {};
  } else if constexpr (IntegerField<T>) {
    return read_integer(from, path, value);
  } else if constexpr (EnumField<T>) {
    if (!from.is_string())
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown(from)),
                  fmt::format("the name of a {}", EnumTable<T>::kWhat));
    auto parsed = parse_enum<T>(from.template get_ref<const std::string&>());
    if (!parsed) return std::unexpected(parsed.error().in(path));
    value = *parsed;
    return {};
  } else if constexpr (ListField<T>) {
    using Element = typename T::value_type;
    const auto wrong = [&] {
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown(from)),
                  fmt::format("an array of at most {} names of a {}", T::kMax, EnumTable<Element>::kWhat));
    };
    if (!from.is_array()) return wrong();
    value = {};
    for (std::size_t i = 0; i < from.size(); ++i) {
      Element element{};
      TS_TRY(read_value(from[i], fmt::format("{}[{}]", path, i), element));
      if (!value.push_back(element)) return wrong();
    }
    return {};
  } else {
    static_assert(ArrayField<T>);
    if (!from.is_array() || from.size() > value.size())
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown(from)),
                  fmt::format("an array of at most {} integers", value.size()));
    value = {};
    for (std::size_t i = 0; i < from.size(); ++i)
      TS_TRY(read_integer(from[i], fmt::format("{}[{}]", path, i), value[i]));
    return {};
  }
}

template <class S>
json struct_to_json(const S& fields_of) {
  json out = json::object();
  S::fields(fields_of,
            [&out](std::string_view field, const auto& value) { out[std::string(field)] = value_to_json(value); });
  return out;
}

template <class S>
Status struct_from_json(const json& from, const std::string& path, S& into) {
  if (!from.is_object()) return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown(from)), "an object");
  std::vector<std::string> known;
  S::fields(into, [&known](std::string_view field, auto&) { known.emplace_back(field); });
  for (const auto& [name, value] : from.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return fail(ErrorCode::parse, fmt::format("{}.{} is not a known field", path, name.substr(0, 64)),
                did_you_mean(name, known));
  }
  Status status;
  S::fields(into, [&](std::string_view field, auto& value) {
    if (!status) return;
    if (const auto found = from.find(std::string(field)); found != from.end())
      status = read_value(*found, fmt::format("{}.{}", path, field), value);
  });
  return status;
}

}  // namespace

json to_json(const KernelConfig& config) {
  return {{"arch", config.arch.text()},
          {"operation", name_of(config.operation())},
          {"signature", std::visit([](const auto& signature) { return struct_to_json(signature); }, config.signature)},
          {"algorithm", struct_to_json(config.algorithm)}};
}

Result<KernelConfig> config_from_json(const json& from) {
  if (!from.is_object())
    return fail(ErrorCode::parse, fmt::format("$ is {}", shown(from)),
                "an object with arch, operation, signature, algorithm");
  KernelConfig config;
  for (const auto& [name, value] : from.items())
    if (name != "arch" && name != "operation" && name != "signature" && name != "algorithm")
      return fail(ErrorCode::parse, fmt::format("$.{} is not a known field", name.substr(0, 64)),
                  "arch, operation, signature, algorithm");
  for (const char* required : {"arch", "operation", "signature", "algorithm"})
    if (!from.contains(required))
      return fail(ErrorCode::parse, fmt::format("$.{} is missing", required), "arch, operation, signature, algorithm");

  const json& arch = from["arch"];
  if (!arch.is_string())
    return fail(ErrorCode::parse, fmt::format("$.arch is {}", shown(arch)), "the name of an architecture");
  TS_ASSIGN(config.arch, ArchName::parse(arch.get_ref<const std::string&>()));

  Operation operation{};
  TS_TRY(read_value(from["operation"], "$.operation", operation));
  switch (operation) {
    case Operation::attention:
      config.signature.emplace<AttentionSignature>();
      break;
    case Operation::gemm:
      config.signature.emplace<GemmSignature>();
      break;
    case Operation::conv:
      config.signature.emplace<ConvSignature>();
      break;
  }
  TS_TRY(std::visit([&](auto& signature) { return struct_from_json(from["signature"], "$.signature", signature); },
                    config.signature));
  TS_TRY(struct_from_json(from["algorithm"], "$.algorithm", config.algorithm));
  return config;
}

}  // namespace tilesmith
