// KernelConfig to and from JSON, derived from the field lists.
#include <fmt/format.h>

#include "base/json.hpp"
#include "vocabulary/config.hpp"
#include "vocabulary/empty_signature.hpp"
#include "vocabulary/field_json.hpp"

namespace tilesmith {

using nlohmann::json;

json to_json(const KernelConfig& config) {
  return {{"arch", config.arch.text()},
          {"operation", name_of(config.operation())},
          {"origin", name_of(config.origin)},
          {"signature", std::visit([](const auto& signature) { return struct_to_json(signature); }, config.signature)},
          {"algorithm", struct_to_json(config.algorithm)}};
}

Result<KernelConfig> config_from_json(const json& from) {
  constexpr const char* kParts = "arch, operation, origin, signature, algorithm";
  if (!from.is_object())
    return fail(ErrorCode::parse, fmt::format("$ is {}", shown_json(from)), fmt::format("an object with {}", kParts));
  KernelConfig config;
  for (const auto& [name, value] : from.items())
    if (name != "arch" && name != "operation" && name != "origin" && name != "signature" && name != "algorithm")
      return fail(ErrorCode::parse, fmt::format("$.{} is not a known field", name.substr(0, 64)), kParts);
  for (const char* required : {"arch", "operation", "signature", "algorithm"})
    if (!from.contains(required)) return fail(ErrorCode::parse, fmt::format("$.{} is missing", required), kParts);
  if (const auto origin = from.find("origin"); origin != from.end())
    TS_TRY(value_from_json(*origin, "$.origin", config.origin));

  const json& arch = from["arch"];
  if (!arch.is_string())
    return fail(ErrorCode::parse, fmt::format("$.arch is {}", shown_json(arch)), "the name of an architecture");
  TS_ASSIGN(config.arch, ArchName::parse(arch.get_ref<const std::string&>()));

  Operation operation{};
  TS_TRY(value_from_json(from["operation"], "$.operation", operation));
  config.signature = empty_signature(operation);
  TS_TRY(std::visit([&](auto& signature) { return struct_from_json(from["signature"], "$.signature", signature); },
                    config.signature));
  TS_TRY(struct_from_json(from["algorithm"], "$.algorithm", config.algorithm));
  return config;
}

}  // namespace tilesmith
