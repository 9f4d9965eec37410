// Sweep files: which of a variant's instances are wanted, by allow-lists of traits.
//
//   {"variant": "fwd", "trait_config": {"data_type": {"values": ["fp16"]}, "mask": {"values": ["no", "top_left"]},
//   "block_per_cu": {"values": [-1, 2]}}}
//
// The format is Composable Kernel's. A key that is absent allows everything; a list that is present must not be empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "spec/amd/ck_attention.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

/// What a user asks for; each consists of one or more kernel families.
enum class AttentionVariant : std::uint8_t { fwd, splitkv, pagedkv, appendkv, batch_prefill, bwd };
template <>
struct EnumTable<AttentionVariant> {
  static constexpr std::string_view kWhat = "attention variant";
  static constexpr auto kNames = enum_names<AttentionVariant>({{AttentionVariant::fwd, "fwd"},
                                                               {AttentionVariant::splitkv, "splitkv"},
                                                               {AttentionVariant::pagedkv, "pagedkv"},
                                                               {AttentionVariant::appendkv, "appendkv"},
                                                               {AttentionVariant::batch_prefill, "batch_prefill"},
                                                               {AttentionVariant::bwd, "bwd"}});
};

struct AttentionSweep {
  /// One trait and the values allowed. `trait` is the key of the file.
  struct Allowed {
    std::string_view trait;
    FieldChoice choice;
  };

  std::optional<AttentionVariant> variant;
  std::vector<Allowed> allowed;
  std::optional<std::vector<DataType>> data_types;
  std::vector<std::int16_t> block_per_cu = {-1};

  /// The values allowed of a field, when the sweep restricts it and the restriction reaches the family. Upstream obeys
  /// each trait for some families only; a list must be the same here.
  [[nodiscard]] const FieldChoice* allowed_of(AttentionFamily family, std::string_view field) const;
  [[nodiscard]] bool allows(AttentionFamily family, const AttentionFeature& feature) const;
};

/// `file` is used in errors, which name the JSON path, the value and what would be right.
[[nodiscard]] Result<AttentionSweep> parse_attention_sweep(std::string_view file, std::string_view text);
/// Reads the file; at most 16 MiB.
[[nodiscard]] Result<AttentionSweep> load_attention_sweep(const std::string& path);

}  // namespace tilesmith
