// Operands and modifiers as llvm-objdump writes them.
#pragma once

#include <string_view>
#include <vector>

#include "amd/instruction.hpp"

namespace tilesmith::amdgpu {

/// How a float constant (1.0, 0.5, ...) becomes bits.
enum class RealType : std::uint8_t {
  f16,
  bf16,
  f32,
  f64,
  b64,  ///< a float64, but a literal of 32 bits is a number, not the float64's upper half
};
/// Of the last type that a mnemonic names: v_cvt_f32_f16 has fp16 operands.
[[nodiscard]] RealType real_type(std::string_view mnemonic);

/// Splits at commas or blanks outside brackets.
[[nodiscard]] std::vector<std::string_view> split_outside_brackets(std::string_view text, char at);

/// Fault: it is no operand.
[[nodiscard]] Operand parse_operand(std::string_view text, RealType real);

/// One modifier, "offset:16" or "clamp"; of DPP only its masks are noted. Fault: it is not known.
void parse_modifier(std::string_view text, Instruction& into);

}  // namespace tilesmith::amdgpu
