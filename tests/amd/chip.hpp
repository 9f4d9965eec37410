// What differs between chips, beyond their mnemonics.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tilesmith::amdgpu {

enum class Family : std::uint8_t { cdna, rdna3, rdna4 };

/// Kinds of memory instructions, by how their completion is counted.
enum class Counted : std::uint8_t { load, store, local, scalar };
inline constexpr int kQueues = 4;

struct Chip {
  std::string name;
  Family family = Family::cdna;
  /// The queue, with a counter of its own, of each kind. CDNA 3 ISA 4.4 (VM_CNT of loads and stores, LGKM_CNT of local
  /// and scalar memory); RDNA 3 ISA 5.6 (VScnt of stores apart); RDNA 4 ISA 5.7 (LOADcnt, STOREcnt, DScnt, KMcnt).
  std::array<std::uint8_t, 4> queue{};
  std::array<std::int16_t, kQueues> most_outstanding{};
  /// CDNA 2 flushes denormal fp16 and bf16 of matrix instructions, operands and results, whatever MODE says.
  bool matrix_flushes_denormals = false;
  bool fnuz = false;  ///< fp8 and bf8 without -0 and infinity (CDNA 3), else those of the Open Compute Project
  /// A 16-bit result clears the destination's upper half, unless the operation keeps it (GFX9).
  bool clears_high_half = false;

  /// Fault: the chip is not known.
  static Chip of(std::string_view name);
  [[nodiscard]] int queue_of(Counted kind) const { return queue[static_cast<std::size_t>(kind)]; }
};

}  // namespace tilesmith::amdgpu
