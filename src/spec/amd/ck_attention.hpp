// What Composable Kernel builds for attention (specs/amd/ck/attention.json, attention_tables.json): data types, tiles,
// the products of features of each kernel family, receipts and profiles. Facts only: the rules that combine them are in
// enumerate/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "spec/amd/chip.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/field_table.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

using HeadDims = std::array<std::uint16_t, 2>;  ///< head_dim_qk, head_dim_v

/// The part of a config that a product of features fixes: everything but the tile.
struct AttentionFeature {
  AttentionSignature signature;
  Pipeline pipeline = Pipeline::qr;
  std::array<std::uint8_t, 4> pad{};

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    AttentionSignature::fields(self.signature, visit);
    visit("pipeline", self.pipeline);
    visit("pad_s", self.pad[0]);
    visit("pad_sk", self.pad[1]);
    visit("pad_d", self.pad[2]);
    visit("pad_dv", self.pad[3]);
  }
};

/// A field and the values it may take, in order.
struct FieldChoice {
  const FieldInfo* field = nullptr;
  std::vector<std::int64_t> values;

  [[nodiscard]] bool allows(const AttentionFeature& feature) const;
};

/// All must allow.
using Condition = std::vector<FieldChoice>;
[[nodiscard]] bool holds(const Condition& condition, const AttentionFeature& feature);

/// A product of axes, the first outermost; each combination yields the kernels whose condition it meets.
struct AttentionProduct {
  struct Kernel {
    std::vector<HeadDims> head_dims;  ///< empty: any
    std::vector<HeadDims> head_dims_not;
    std::vector<int> receipts;  ///< empty: any
    Condition when;
    Pipeline pipeline = Pipeline::qr;
    std::vector<std::array<std::uint8_t, 4>> pads;
  };

  enum class Need : std::uint8_t { nothing, transposed_load, v3 };

  std::vector<DataType> data_types;
  std::vector<HeadDims> head_dims;  ///< empty: those of the data type
  std::vector<TileTag> tags;        ///< backward: the tiles it is for
  Need needs = Need::nothing;       ///< a capability of the chip
  Condition fixed;
  std::vector<FieldChoice> axes;
  std::vector<Kernel> kernels;
};
template <>
struct EnumTable<AttentionProduct::Need> {
  using Need = AttentionProduct::Need;
  static constexpr std::string_view kWhat = "chip capability";
  static constexpr auto kNames =
      enum_names<Need>({{Need::nothing, "nothing"}, {Need::transposed_load, "transposed_load"}, {Need::v3, "v3"}});
};
[[nodiscard]] bool has_capability(const AmdChip& chip, AttentionProduct::Need need);

using FamilyProducts = std::array<std::vector<AttentionProduct>, enum_size<AttentionFamily>()>;

struct AmdAttentionSpec {
  struct TypeProperties {
    DataType type = DataType::fp16;
    int bytes = 2;
    bool k1_is_k0 = false;
    std::vector<HeadDims> head_dims;
    std::vector<Shape3> warps;
    Shape3 splitkv_warp{};
  };
  struct BackwardTile {
    HeadDims head_dims{};
    TileTag tag = TileTag::none;
    bool batch_only = false;
    std::array<std::uint16_t, 9> tile{};
  };
  struct BackwardWaves {
    Shape3 tile{};
    bool trload = false;
    std::array<std::uint16_t, 9> wave{};
    std::uint16_t warp_k1 = 16;
  };
  struct ReceiptRow {
    std::vector<int> receipts;  ///< empty: any receipt without a row of its own
    Condition keep;
  };
  struct ReceiptFilter {
    std::vector<AttentionFamily> families;
    std::vector<ReceiptRow> rows;
  };
  struct Profile {
    std::string name;
    int receipt = 0;
    std::vector<Condition> keep;  ///< one of them must hold
  };
  struct Lds {
    long sync_limit_bytes = 0, async_limit_bytes = 0;
    int async_buffers = 0, async_k1 = 0, lanes = 0, vector_bytes = 0, bank_bytes = 0;
  };
  struct TableTiles {
    HeadDims head_dims{};
    std::vector<std::array<std::uint16_t, 6>> tiles;
  };
  struct TypeTable {
    std::vector<DataType> data_types;
    AttentionProduct::Need needs = AttentionProduct::Need::nothing;
    std::vector<TableTiles> rows;
  };
  /// The earlier enumeration from fixed tiles.
  struct Tables {
    AmdIsa isa = AmdIsa::cdna;
    std::array<std::vector<TypeTable>, enum_size<AttentionFamily>()> tiles;
    FamilyProducts products;
    std::vector<std::pair<AttentionFamily, std::vector<DataType>>> data_types;
  };

  std::vector<TypeProperties> types;
  std::array<std::vector<int>, 3> tile_axes;  ///< m0, n0, k0
  std::vector<std::pair<int, int>> k0max_of_head_dim_qk;
  int k1 = 0;
  std::vector<std::array<std::uint16_t, 4>> k1_is_16;  ///< m0, n0, k0, head_dim_qk
  std::vector<std::array<std::uint16_t, 4>> batch_prefill_k1_is_64;
  std::vector<Pipeline> async_pipelines;
  Lds lds;
  std::array<std::uint16_t, 6> default_tile{};
  std::array<std::uint16_t, 9> default_wave{};
  std::array<std::uint16_t, 9> default_warp{};
  std::uint16_t combine_m0 = 0, combine_k0 = 0, combine_n1 = 0;
  std::uint16_t appendkv_m0 = 0, appendkv_n0 = 0;
  std::uint16_t backward_1d_m0 = 0;
  std::vector<BackwardTile> backward_tiles;
  std::vector<BackwardWaves> backward_waves;
  std::uint16_t backward_warp_mn = 0, backward_warp_k0 = 0, backward_warp_k1 = 0, backward_warp_k2 = 0;
  FamilyProducts rules;
  FamilyProducts exhaustive;
  std::vector<int> known_receipts;
  std::vector<ReceiptFilter> receipt_filters;
  std::vector<Profile> profiles;
  Tables tables;

  [[nodiscard]] const TypeProperties* facts_of(DataType type) const;
  [[nodiscard]] const Profile* profile(std::string_view name) const;
  /// Whether a receipt's list has the feature.
  [[nodiscard]] bool receipt_keeps(int receipt, const AttentionFeature& feature) const;
};

[[nodiscard]] Result<AmdAttentionSpec> parse_amd_attention_spec(std::string_view file, std::string_view text,
                                                                std::string_view tables_file,
                                                                std::string_view tables_text);

/// The spec in use, loaded once; the error of the load is kept.
[[nodiscard]] const Result<AmdAttentionSpec>& amd_attention_spec();

class JsonReader;
/// Reads {"field": [values...]} for the fields of AttentionFeature.
[[nodiscard]] Result<Condition> read_condition(const JsonReader& from);
/// Reads [values...] of one field.
[[nodiscard]] Result<FieldChoice> read_choice(std::string_view field, const JsonReader& values);

}  // namespace tilesmith
