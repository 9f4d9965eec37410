// The steps of a division of float32: scale both operands into a safe range, fuse the last correction with the scale
// back, repair special values ("V_DIV_SCALE_F32", "V_DIV_FMAS_F32", "V_DIV_FIXUP_F32" of CDNA 3 ISA 12.10 and RDNA 3
// ISA 16.10).
#include <cmath>
#include <limits>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

int exponent(float x) {
  return static_cast<int>(std::bit_cast<u32>(x) >> 23 & 255);
}
bool is_denormal(double x) {
  return x != 0 && std::fabs(x) < 0x1p-126;
}

/// `value` is the denominator or the numerator; true: the quotient will have to be scaled back.
bool scale(float value, float denominator, float numerator, float& scaled) {
  scaled = value;
  if (numerator == 0 || denominator == 0) {
    scaled = std::numeric_limits<float>::quiet_NaN();
    return false;
  }
  const bool is_denominator = std::bit_cast<u32>(value) == std::bit_cast<u32>(denominator);
  const bool is_numerator = std::bit_cast<u32>(value) == std::bit_cast<u32>(numerator);
  const bool tiny_reciprocal = is_denormal(1 / static_cast<double>(denominator));
  const bool tiny_quotient = is_denormal(static_cast<double>(numerator) / denominator);
  const auto up = [&] { scaled = std::ldexp(value, 64); };
  if (exponent(numerator) - exponent(denominator) >= 96) {
    if (is_denominator) up();
    return true;
  }
  if (is_denormal(denominator)) {
    up();
    return false;
  }
  // The documents scale such a denominator up, out of range; down is what makes the division right.
  if (tiny_reciprocal && tiny_quotient) {
    if (is_denominator) scaled = std::ldexp(value, -64);
    return true;
  }
  if (tiny_reciprocal) {
    scaled = std::ldexp(value, -64);
    return false;
  }
  if (tiny_quotient) {
    if (is_numerator) up();
    return true;
  }
  if (exponent(numerator) <= 23) up();
  return false;
}

/// Operands: scaled value, mask of what is to be scaled back, value, denominator, numerator.
void divide_scale(Wave& wave, const Instruction& in) {
  const Source<float> value(wave, in, 2), denominator(wave, in, 3), numerator(wave, in, 4);
  Row results;
  u64 back = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    float scaled;
    back |= static_cast<u64>(scale(value[lane], denominator[lane], numerator[lane], scaled)) << lane;
    results[static_cast<std::size_t>(lane)] = std::bit_cast<u32>(scaled);
  }
  write_mask(wave, in.at(1), back, wave.exec());
  wave.write(in.at(0).index, results, wave.exec());
}

/// a * b + c, scaled back in the lanes of VCC: up by what the denominator was scaled, or down by what the numerator
/// was, as c says, which is almost the quotient. (The documents have 2^32 for both, which undoes neither.)
void divide_fused(Wave& wave, const Instruction& in) {
  const Source<float> a(wave, in, 1), b(wave, in, 2), c(wave, in, 3);
  const u64 back = wave.mask(kVcc);
  Row results;
  for (int lane = 0; lane < kLanes; ++lane) {
    const double sum = std::fma(static_cast<double>(a[lane]), static_cast<double>(b[lane]), c[lane]);
    const double factor = (back >> lane & 1) == 0 ? 1 : exponent(c[lane]) > 127 ? 0x1p64 : 0x1p-64;
    results[static_cast<std::size_t>(lane)] = std::bit_cast<u32>(static_cast<float>(sum * factor));
  }
  wave.write(in.at(0).index, results, wave.exec());
}

float divide_fixed(float quotient, float denominator, float numerator) {
  const float sign = std::signbit(denominator) != std::signbit(numerator) ? -1.0f : 1.0f;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (std::isnan(numerator)) return numerator;
  if (std::isnan(denominator)) return denominator;
  if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator)))
    return -std::numeric_limits<float>::quiet_NaN();
  if (denominator == 0 || std::isinf(numerator)) return sign * kInfinity;
  if (std::isinf(denominator) || numerator == 0) return sign * 0.0f;
  if (exponent(numerator) - exponent(denominator) < -150) return sign * 0.0f;
  // The steps of a quotient beyond the range end in infinity less infinity.
  return sign * (std::isnan(quotient) ? kInfinity : std::fabs(quotient));
}

constexpr Operation kOperations[] = {
    {"v_div_scale_f32", divide_scale},
    {"v_div_fmas_f32", divide_fused},
    {"v_div_fixup_f32", each_lane<divide_fixed>},
};

}  // namespace

std::span<const Operation> division_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
