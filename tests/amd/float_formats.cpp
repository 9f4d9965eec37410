#include "amd/float_formats.hpp"

#include <cmath>
#include <limits>

namespace tilesmith::amdgpu {

double FloatFormat::value(std::uint32_t word) const {
  const std::uint32_t mantissa = word & ((1u << mantissa_bits) - 1);
  const int largest = (1 << exponent_bits) - 1, exponent = static_cast<int>(word >> mantissa_bits) & largest;
  const bool negative = (word >> (bits() - 1) & 1) != 0;
  const double sign = negative ? -1 : 1;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  switch (special) {
    case Special::ieee:
      if (exponent == largest) return mantissa != 0 ? kNan : sign * std::numeric_limits<double>::infinity();
      break;
    case Special::only_nan:
      if (exponent == largest && mantissa == (1u << mantissa_bits) - 1) return kNan;
      break;
    case Special::fnuz:
      if (negative && exponent == 0 && mantissa == 0) return kNan;
      break;
  }
  const int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  return sign * std::ldexp(static_cast<double>(exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits), scale);
}

std::uint32_t FloatFormat::round(double value, bool saturate) const {
  const std::uint32_t all = (1u << (bits() - 1)) - 1, top = 1u << (bits() - 1);
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  const std::uint32_t nan = special == Special::ieee   ? infinity | 1u << (mantissa_bits - 1)
                            : special == Special::fnuz ? top
                                                       : all;
  const std::uint32_t largest = special == Special::ieee ? infinity - 1 : special == Special::fnuz ? all : all - 1;
  const std::uint32_t sign = std::signbit(value) ? top : 0;
  if (std::isnan(value)) return special == Special::fnuz ? nan : sign | nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return special == Special::fnuz ? 0 : sign;
  std::uint32_t word = largest + 1;  // what overflows
  if (!std::isinf(magnitude)) {
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
    const int field = std::max(exponent - 1 + bias, 1);
    // In units of the last place; the carry of a rounding goes into the exponent by itself.
    const double units = std::nearbyint(std::ldexp(magnitude, bias + mantissa_bits - field));
    if (field < 1 << exponent_bits)
      word = (static_cast<std::uint32_t>(field - 1) << mantissa_bits) + static_cast<std::uint32_t>(units);
  }
  if (word > largest) {
    if (saturate) return sign | largest;
    return special == Special::ieee ? sign | infinity : special == Special::fnuz ? nan : sign | nan;
  }
  if (word == 0 && special == Special::fnuz) return 0;
  return sign | word;
}

const std::array<float, 65536>& f16_values() {
  static const std::array<float, 65536> values = [] {
    std::array<float, 65536> all;
    for (std::uint32_t bits = 0; bits < all.size(); ++bits) {
      all[bits] = static_cast<float>(kF16.value(bits));
      // A NaN keeps its sign and its bits.
      if (std::isnan(all[bits]))
        all[bits] = std::bit_cast<float>((bits & 0x8000u) << 16 | 0x7fc00000u | (bits & 0x3ffu) << 13);
    }
    return all;
  }();
  return values;
}

F16 to_f16(double value) {
  return {static_cast<std::uint16_t>(kF16.round(value))};
}

Bf16 to_bf16(double value) {
  return {static_cast<std::uint16_t>(kBf16.round(value))};
}

F16 to_f16_truncated(float value) {
  F16 rounded = to_f16(value);
  if (std::isinf(value) || std::isnan(value)) return rounded;
  if (std::fabs(value_of(rounded)) > std::fabs(value)) --rounded.bits;
  return rounded;
}

}  // namespace tilesmith::amdgpu
