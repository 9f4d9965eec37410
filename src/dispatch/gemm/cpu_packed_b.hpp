// What a buffer of packed B begins with: for which GEMMs, and for which kernels' panels, it was made. A run compares
// it with what its kernel reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// 64 bytes, so that the panels behind it are aligned as it is.
struct PackedHeader {
  static constexpr std::string_view kMagic = "TSPB", kOperand = "b", kMaker = "pack_b";

  char magic[4];
  std::uint32_t checksum;  ///< of what follows
  char arch[24];
  std::int64_t n, k;
  std::int64_t bytes;  ///< of the buffer, this header included
  std::uint32_t tile_k;
  DataType type_a, type_b;
  Instruction instruction;
  std::uint8_t version;  ///< of the panels' format

  /// What pack_b writes for the problem when kernels like `config` read the panels.
  [[nodiscard]] static PackedHeader of(const GemmProblem& problem, const KernelConfig& config, std::int64_t bytes);

  /// Checks the buffer of a call that asks for panels like this header's: it is whole, and made for them. `bytes` of it
  /// there are; 0: the size is not known. Errors: invalid_argument.
  [[nodiscard]] Status check(const void* packed, std::int64_t bytes) const;

  /// "bf16 x bf16, n 4096, k 512, for dpbf16 of x86_64_v4_bf16 in blocks of 1024".
  [[nodiscard]] std::string text() const;
};

static_assert(sizeof(PackedHeader) == 64 && std::is_trivially_copyable_v<PackedHeader>);

}  // namespace tilesmith
