// What Tilesmith's own GEMM listings hold: plain products, and variants that are each made from a plain one.
#pragma once

#include <string_view>
#include <vector>

#include "instances/sink.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

enum class GemmVariant : std::uint8_t {
  standard,    ///< one type for A and B
  fp8_bf8,     ///< fp8 with bf8
  m_grouped,   ///< contiguous and masked groups
  blockscale,  ///< 8-bit floats with scales of blocks, grouped ones too
  weights,     ///< integer weights of 16-bit floats, by type and type of scales
  mm_plus_mm,  ///< two products in one sum
};
template <>
struct EnumTable<GemmVariant> {
  static constexpr std::string_view kWhat = "variant of gemm";
  static constexpr auto kNames = enum_names<GemmVariant>({{GemmVariant::standard, "standard"},
                                                          {GemmVariant::fp8_bf8, "fp8_bf8"},
                                                          {GemmVariant::m_grouped, "m_grouped"},
                                                          {GemmVariant::blockscale, "blockscale"},
                                                          {GemmVariant::weights, "weights"},
                                                          {GemmVariant::mm_plus_mm, "mm_plus_mm"}});
};

/// The variant's signatures made from a plain one; none where it has no meaning. Whether a chip carries them is for
/// its rules to say.
[[nodiscard]] std::vector<GemmSignature> variants_of(const GemmSignature& plain, GemmVariant variant);

}  // namespace tilesmith
