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

/// encode_float's results for kLanes floats, without a branch.
template <class Code>
[[gnu::always_inline]] inline void encode_lanes(FloatFormat format, const float* source, std::byte* codes) {
  using Words = Lanes<std::uint32_t>;
  Words bits;
  std::memcpy(&bits, source, sizeof bits);
  const Words magnitude = bits & 0x7fffffffu;
  const int lost = 23 - format.mantissa_bits;
  const std::uint32_t rebias = static_cast<std::uint32_t>(127 - format.bias()) << format.mantissa_bits;
  Words code = ((magnitude + ((1u << (lost - 1)) - 1) + (magnitude >> lost & 1)) >> lost) - rebias;
  if (format.exponent_bits != 8) {
    // Among floats that are as far apart as the format's subnormals, an addition rounds to one of these.
    const std::uint32_t far = static_cast<std::uint32_t>(127 + 24 - format.bias() - format.mantissa_bits) << 23;
    const Words small =
        reinterpret_cast<Words>(reinterpret_cast<Lanes<float>>(magnitude) + std::bit_cast<float>(far)) - far;
    const auto is_small = reinterpret_cast<Words>(magnitude < static_cast<std::uint32_t>(128 - format.bias()) << 23);
    code = (is_small & small) | (~is_small & code);
  }
  const std::uint32_t beyond = format.saturates ? format.largest() : format.infinity();
  const auto is_beyond = reinterpret_cast<Words>(code > format.largest());
  const auto is_nan = reinterpret_cast<Words>(magnitude > 0x7f800000u);
  code = (is_beyond & beyond) | (~is_beyond & code);
  code = (is_nan & format.quiet_nan()) | (~is_nan & code);
  code |= bits >> 31 << (format.exponent_bits + format.mantissa_bits);
  const auto stored = __builtin_convertvector(code, Lanes<Code>);
  std::memcpy(codes, &stored, sizeof stored);
}

template <class Code>
[[gnu::always_inline]] inline void encode_array(FloatFormat format, const float* source, std::byte* codes,
                                                std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) encode_lanes<Code>(format, source + i, codes + i * sizeof(Code));
  for (; i < count; ++i) {
    const auto code = static_cast<Code>(encode_float(format, static_cast<double>(source[i])));
    std::memcpy(codes + i * sizeof code, &code, sizeof code);
  }
}

// Clones have internal linkage: what chooses among others would be exported.
TS_CLONES void decode_to_floats(const FloatFormat& format, const void* codes, float* target, std::size_t count) {
  decode_any(format, codes, target, count);
}
TS_CLONES void decode_to_doubles(const FloatFormat& format, const void* codes, double* target, std::size_t count) {
  decode_any(format, codes, target, count);
}
TS_CLONES void encode_from_floats(const FloatFormat& format, const float* source, void* codes, std::size_t count) {
  if (1 + format.exponent_bits + format.mantissa_bits <= 8)
    encode_array<std::uint8_t>(format, source, static_cast<std::byte*>(codes), count);
  else
    encode_array<std::uint16_t>(format, source, static_cast<std::byte*>(codes), count);
}

}  // namespace

void decode_floats(const FloatFormat& format, const void* codes, float* target, std::size_t count) {
  decode_to_floats(format, codes, target, count);
}
void decode_floats(const FloatFormat& format, const void* codes, double* target, std::size_t count) {
  decode_to_doubles(format, codes, target, count);
}
void encode_floats(const FloatFormat& format, const float* source, void* codes, std::size_t count) {
  encode_from_floats(format, source, codes, count);
}

}  // namespace tilesmith
