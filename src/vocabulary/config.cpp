#include "vocabulary/config.hpp"

#include "vocabulary/field_value.hpp"

namespace tilesmith {

std::string canonical_form(const KernelConfig& config) {
  std::string out;
  out.reserve(768);
  const auto append = [&out](std::string_view field, const auto& value) {
    out += ';';
    out += field;
    out += '=';
    append_value(out, value);
  };
  out += "arch=";
  out += config.arch.text();
  append("operation", config.operation());
  std::visit([&](const auto& signature) { signature.fields(signature, append); }, config.signature);
  Algorithm::fields(config.algorithm, append);
  return out;
}

Key128 key_of(const KernelConfig& config) {
  return key128(canonical_form(config));
}

}  // namespace tilesmith
