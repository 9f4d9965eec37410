#include "vocabulary/config.hpp"

#include "vocabulary/canonical.hpp"

namespace tilesmith {

std::string canonical_form(const KernelConfig& config) {
  return std::visit(
      [&](const auto& signature) {
        return canonical_form(config.origin, config.arch.text(), config.operation(), signature, config.algorithm);
      },
      config.signature);
}

Key128 key_of(const KernelConfig& config) {
  return key128(canonical_form(config));
}

}  // namespace tilesmith
