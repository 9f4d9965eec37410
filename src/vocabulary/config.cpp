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

bool KernelConfig::is_bitwise() const {
  if (!algorithm.is_bitwise()) return false;
  if (const auto* s = std::get_if<AttentionSignature>(&signature))
    return s->family != AttentionFamily::bwd_dq_dk_dv || s->deterministic;
  const auto* s = std::get_if<GemmSignature>(&signature);
  return s == nullptr || s->stream_k_reduction != StreamKReduction::atomic;
}

}  // namespace tilesmith
