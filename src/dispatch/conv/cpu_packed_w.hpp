// What a buffer of packed w begins with: for which convolutions, and for which kernels' panels, it was made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// 128 bytes, so that the panels behind it are aligned as it is.
struct PackedWHeader {
  static constexpr std::string_view kMagic = "TSPW", kOperand = "w", kMaker = "pack_w";

  char magic[4];
  std::uint32_t checksum;  ///< of what follows
  char arch[24];
  std::int64_t groups, c, k;
  std::int64_t filter[3];
  std::int64_t dilation_w;  ///< taps of a row without dilation may be packed as one
  std::int64_t bytes;       ///< of the buffer, this header included
  ConvDirection direction;
  DataType data_type;
  Instruction instruction;
  Pipeline pipeline;
  std::uint8_t version;  ///< of the panels' format
  std::uint8_t reserved[27];

  /// What pack_w writes for the problem when kernels like `config` read the panels.
  [[nodiscard]] static PackedWHeader of(const ConvProblem& problem, const KernelConfig& config, std::int64_t bytes);

  /// "fwd of bf16, groups 2, c 32, k 64, filter 1x3x3, for blocked with fma on x86_64_v4".
  [[nodiscard]] std::string text() const;
};

static_assert(sizeof(PackedWHeader) == 128 && std::is_trivially_copyable_v<PackedWHeader>);

}  // namespace tilesmith
