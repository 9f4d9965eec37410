// Floating-point formats narrower than float32, by their fields alone: values to and from float64, rounded to nearest
// even.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace tilesmith::amdgpu {

struct FloatFormat {
  enum class Special : std::uint8_t {
    ieee,      ///< the largest exponent: infinities and NaN
    only_nan,  ///< all ones is NaN, and there is no infinity (OCP 8-bit formats, E4M3)
    fnuz,      ///< the bits of -0 are NaN, and there is neither -0 nor infinity
  };
  int exponent_bits, mantissa_bits, bias;
  Special special;

  [[nodiscard]] constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  [[nodiscard]] double value(std::uint32_t word) const;
  /// What overflows becomes infinity or, where there is none, NaN; `saturate`: the largest finite value.
  [[nodiscard]] std::uint32_t round(double value, bool saturate = false) const;
};

inline constexpr FloatFormat kF16{5, 10, 15, FloatFormat::Special::ieee};
inline constexpr FloatFormat kBf16{8, 7, 127, FloatFormat::Special::ieee};
// OCP 8-bit Floating Point Specification (OFP8), 5.1: gfx950, gfx12.
inline constexpr FloatFormat kE4m3{4, 3, 7, FloatFormat::Special::only_nan};
inline constexpr FloatFormat kE5m2{5, 2, 15, FloatFormat::Special::ieee};
// CDNA 3 ISA, 7.2 "FP8 and BF8": the formats of gfx942.
inline constexpr FloatFormat kE4m3Fnuz{4, 3, 8, FloatFormat::Special::fnuz};
inline constexpr FloatFormat kE5m2Fnuz{5, 2, 16, FloatFormat::Special::fnuz};

/// float32 of every fp16, by its bits.
const std::array<float, 65536>& f16_values();

struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
inline float value_of(F16 x) {
  return f16_values()[x.bits];
}
inline float value_of(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
F16 to_f16(double value);
Bf16 to_bf16(double value);
/// Towards zero.
F16 to_f16_truncated(float value);

}  // namespace tilesmith::amdgpu
