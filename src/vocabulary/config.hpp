// KernelConfig: one kernel instance = what it computes (Signature) + how (Algorithm) + the architecture it is for.
//
// Identity is the canonical form: every field in declaration order, "field=value", so two configs are equal exactly
// when their canonical forms are. The 128-bit key is the head of its SHA-256. Names are for people (native_name.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/arch_name.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

struct KernelConfig {
  ArchName arch;
  Signature signature;
  Algorithm algorithm;

  friend bool operator==(const KernelConfig&, const KernelConfig&) = default;

  [[nodiscard]] Operation operation() const { return operation_of(signature); }
  [[nodiscard]] const AttentionSignature& attention() const { return std::get<AttentionSignature>(signature); }
  [[nodiscard]] AttentionSignature& attention() { return std::get<AttentionSignature>(signature); }
};

/// "arch=x86_64_v4;operation=attention;family=fwd;...": injective, stable across runs, machines and locales.
[[nodiscard]] std::string canonical_form(const KernelConfig& config);

/// The first 128 bits of the SHA-256 of the canonical form.
[[nodiscard]] Key128 key_of(const KernelConfig& config);

/// {"arch": ..., "operation": ..., "signature": {...}, "algorithm": {...}}, every field present.
[[nodiscard]] nlohmann::json to_json(const KernelConfig& config);

/// The inverse of to_json. Absent fields keep their defaults; an unknown field or a value of the wrong kind is an error
/// that names the JSON path, the value, and what would be right.
[[nodiscard]] Result<KernelConfig> config_from_json(const nlohmann::json& json);

}  // namespace tilesmith
