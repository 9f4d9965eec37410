// The small floating-point formats, as codes (unsigned integers) and the numbers they stand for.
//
// One description of a format (exponent bits, mantissa bits, how its top exponent is used) gives both directions.
// Encoding starts from a double and rounds once, to nearest, ties to even; a float is a double exactly, so no caller
// rounds twice. Decoding is exact.
//
// Sources: IEEE 754-2019 for binary16; bfloat16 is the upper half of binary32; the two fp8 formats are those of the OCP
// 8-bit floating point specification (revision 1.0, table 1): e5m2 has infinities like an IEEE format, e4m3 has none
// and one NaN per sign. Values beyond an fp8 format's range become its largest number, as the conversion instructions
// do (PTX cvt.rn.satfinite): only NaN becomes NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace tilesmith {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< the top exponent holds infinity and NaN; otherwise it holds numbers and one NaN (all ones)
  bool saturates;     ///< out of range becomes the largest number, otherwise infinity

  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr std::uint32_t magnitude_mask() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  [[nodiscard]] constexpr std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  [[nodiscard]] constexpr std::uint32_t largest() const { return (has_infinity ? infinity() : magnitude_mask()) - 1; }
  [[nodiscard]] constexpr std::uint32_t quiet_nan() const {
    return has_infinity ? infinity() | 1u << (mantissa_bits - 1) : magnitude_mask();
  }
  /// Half the distance from 1 to the next number: the largest relative error of one rounding.
  [[nodiscard]] constexpr double unit_roundoff() const { return 1.0 / static_cast<double>(2u << mantissa_bits); }
};

inline constexpr FloatFormat kBf16{8, 7, true, false};
inline constexpr FloatFormat kFp16{5, 10, true, false};
inline constexpr FloatFormat kFp8E4m3{4, 3, false, true};
inline constexpr FloatFormat kFp8E5m2{5, 2, true, true};

/// The code of the number of `format` nearest to `value`.
[[nodiscard]] constexpr std::uint32_t encode_float(const FloatFormat& format, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 63) << (format.exponent_bits + format.mantissa_bits);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  const std::uint64_t fraction = bits & 0xfffffffffffffull;
  const std::uint32_t beyond = format.saturates ? format.largest() : format.infinity();
  if (exponent == 1024) return sign | (fraction != 0 ? format.quiet_nan() : beyond);

  // Below the smallest normal exponent the mantissa loses one bit a step: that is all there is to subnormals.
  const int lowest = 1 - format.bias();
  const int lost = 52 - format.mantissa_bits + (exponent < lowest ? lowest - exponent : 0);
  if (lost > 53) return sign;  // less than half of the smallest subnormal (a subnormal double always is)
  const std::uint64_t mantissa = fraction | 1ull << 52;
  const std::uint64_t odd = mantissa >> lost & 1;
  const auto kept = static_cast<std::uint32_t>((mantissa + (1ull << (lost - 1)) - 1 + odd) >> lost);
  // `kept` carries its leading bit (or, after rounding up, the next power of two) into the exponent field by plain
  // addition.
  if (exponent > format.bias() + 1) return sign | beyond;
  const std::uint32_t steps = exponent > lowest ? static_cast<std::uint32_t>(exponent - lowest) : 0;
  const std::uint32_t code = (steps << format.mantissa_bits) + kept;
  return sign | (code > format.largest() ? beyond : code);
}

/// The number a code stands for; every one of them is a float. Inlined always: a format that is known there leaves
/// three or four instructions, and references convert every element many times.
[[nodiscard, gnu::always_inline]] constexpr float decode_float(const FloatFormat& format, std::uint32_t code) {
  const std::uint32_t magnitude = code & format.magnitude_mask();
  const std::uint32_t sign = (code >> (format.exponent_bits + format.mantissa_bits) & 1) << 31;
  const bool special = format.has_infinity ? magnitude >= format.infinity() : magnitude == format.magnitude_mask();
  std::uint32_t bits = magnitude << (23 - format.mantissa_bits);
  if (special) {
    bits = magnitude == format.infinity() ? 0x7f800000u : bits | 0x7fc00000u;
  } else if (format.exponent_bits != 8) {
    const auto rebias = std::bit_cast<float>(static_cast<std::uint32_t>(254 - format.bias()) << 23);  // 2^(127 - bias)
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) * rebias);
  }
  return std::bit_cast<float>(bits | sign);
}

[[nodiscard]] constexpr std::uint16_t to_fp16(double value) {
  return static_cast<std::uint16_t>(encode_float(kFp16, value));
}
[[nodiscard]] constexpr std::uint16_t to_bf16(double value) {
  return static_cast<std::uint16_t>(encode_float(kBf16, value));
}
[[nodiscard]] constexpr std::uint8_t to_fp8e4m3(double value) {
  return static_cast<std::uint8_t>(encode_float(kFp8E4m3, value));
}
[[nodiscard]] constexpr std::uint8_t to_fp8e5m2(double value) {
  return static_cast<std::uint8_t>(encode_float(kFp8E5m2, value));
}
[[nodiscard]] constexpr float from_fp16(std::uint16_t code) {
  return decode_float(kFp16, code);
}
[[nodiscard]] constexpr float from_bf16(std::uint16_t code) {
  return decode_float(kBf16, code);
}
[[nodiscard]] constexpr float from_fp8e4m3(std::uint8_t code) {
  return decode_float(kFp8E4m3, code);
}
[[nodiscard]] constexpr float from_fp8e5m2(std::uint8_t code) {
  return decode_float(kFp8E5m2, code);
}

}  // namespace tilesmith
