// KernelConfig: one kernel instance = what it computes (Signature) + how (Algorithm) + the architecture it is for +
// whose kernel it is (Origin).
//
// Identity is the canonical form (canonical.hpp): two configs are equal exactly when their canonical forms are. The
// 128-bit key is the head of its SHA-256. Names are for people (names/name.hpp).
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

/// Whose kernels an instance belongs to: who writes its source, and in whose grammar its name is.
enum class Origin : std::uint8_t {
  own,  ///< generated from Tilesmith's own templates
  ck,   ///< Composable Kernel
};
template <>
struct EnumTable<Origin> {
  static constexpr std::string_view kWhat = "origin";
  static constexpr auto kNames = enum_names<Origin>({{Origin::own, "own"}, {Origin::ck, "ck"}});
};

struct KernelConfig {
  Origin origin = Origin::own;
  ArchName arch{};
  Signature signature{};
  Algorithm algorithm{};

  friend bool operator==(const KernelConfig&, const KernelConfig&) = default;

  [[nodiscard]] Operation operation() const { return operation_of(signature); }
  [[nodiscard]] const AttentionSignature& attention() const { return std::get<AttentionSignature>(signature); }
  [[nodiscard]] AttentionSignature& attention() { return std::get<AttentionSignature>(signature); }
  /// Whether the same call gives the same bits every time: of attention backward and stream-K the signature says it.
  [[nodiscard]] bool is_bitwise() const;
};

/// "v2;origin=own;arch=x86_64_v4;operation=attention;data_type=bf16;pipeline=flash;...": the fields that differ from
/// their defaults. Injective, stable across runs, machines, locales, and when a struct gains a field with a default.
[[nodiscard]] std::string canonical_form(const KernelConfig& config);

/// The first 128 bits of the SHA-256 of the canonical form.
[[nodiscard]] Key128 key_of(const KernelConfig& config);

/// {"arch": ..., "operation": ..., "origin": "own", "signature": {...}, "algorithm": {...}}, every field present.
[[nodiscard]] nlohmann::json to_json(const KernelConfig& config);

/// The inverse of to_json. Absent fields keep their defaults; an unknown field or a value of the wrong kind is an error
/// that names the JSON path, the value, and what would be right.
[[nodiscard]] Result<KernelConfig> config_from_json(const nlohmann::json& json);

}  // namespace tilesmith
