#include "base/float_arrays.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/clones.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kLanes = 16;

template <class T>
using Lanes [[gnu::vector_size(sizeof(T) * kLanes)]] = T;

/// decode_float's steps on kLanes codes, without a branch.
template <class Code, class Number>
[[gnu::always_inline]] inline void decode_lanes(FloatFormat format, const std::byte* codes, Number* target) {
  using Words = Lanes<std::uint32_t>;
  Lanes<Code> loaded;
  std::memcpy(&loaded, codes, sizeof loaded);
  const Words code = __builtin_convertvector(loaded, Words);
  const Words magnitude = code & format.magnitude_mask();
  const Words sign = (code >> (format.exponent_bits + format.mantissa_bits) & 1) << 31;
  const Words shifted = magnitude << (23 - format.mantissa_bits);
  Words number = shifted;
  if (format.exponent_bits != 8) {
    const auto rebias = std::bit_cast<float>(static_cast<std::uint32_t>(254 - format.bias()) << 23);  // 2^(127 - bias)
    number = reinterpret_cast<Words>(reinterpret_cast<Lanes<float>>(shifted) * rebias);
  }
  const std::uint32_t infinity = format.has_infinity ? format.infinity() : ~0u;
  const auto is_special =
      reinterpret_cast<Words>(magnitude >= (format.has_infinity ? infinity : format.magnitude_mask()));
  const auto is_infinity = reinterpret_cast<Words>(magnitude == infinity);
  const Words special = (is_infinity & 0x7f800000u) | (~is_infinity & (shifted | 0x7fc00000u));
  const Words bits = (is_special & special) | (~is_special & number) | sign;
  const auto numbers = __builtin_convertvector(reinterpret_cast<Lanes<float>>(bits), Lanes<Number>);
  std::memcpy(target, &numbers, sizeof numbers);
}

// The format is a copy, which no store to the target can change.
template <class Code, class Number>
[[gnu::always_inline]] inline void decode_array(FloatFormat format, const std::byte* codes, Number* target,
                                                std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) decode_lanes<Code>(format, codes + i * sizeof(Code), target + i);
  for (; i < count; ++i) {
    Code code;
    std::memcpy(&code, codes + i * sizeof code, sizeof code);
    target[i] = static_cast<Number>(decode_float(format, code));
  }
}

template <class Number>
[[gnu::always_inline]] inline void decode_any(const FloatFormat& format, const void* codes, Number* target,
                                              std::size_t count) {
  const auto* const bytes = static_cast<const std::byte*>(codes);
  if (1 + format.exponent_bits + format.mantissa_bits <= 8)
    decode_array<std::uint8_t>(format, bytes, target, count);
  else
    decode_array<std::uint16_t>(format, bytes, target, count);
}

// Clones have internal linkage: what chooses among others would be exported.
TS_CLONES void decode_to_floats(const FloatFormat& format, const void* codes, float* target, std::size_t count) {
  decode_any(format, codes, target, count);
}
TS_CLONES void decode_to_doubles(const FloatFormat& format, const void* codes, double* target, std::size_t count) {
  decode_any(format, codes, target, count);
}

}  // namespace

void decode_floats(const FloatFormat& format, const void* codes, float* target, std::size_t count) {
  decode_to_floats(format, codes, target, count);
}
void decode_floats(const FloatFormat& format, const void* codes, double* target, std::size_t count) {
  decode_to_doubles(format, codes, target, count);
}

}  // namespace tilesmith
