// Every code of every format against the definition, and encoding against a search for the nearest code.
#include "base/float_types.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/element_type.hpp"
#include "base/float_arrays.hpp"
#include "base/random.hpp"

namespace tilesmith {
namespace {

struct Named {
  const char* name;
  FloatFormat format;
};
constexpr Named kFormats[] = {{"bf16", kBf16}, {"fp16", kFp16}, {"fp8e4m3", kFp8E4m3}, {"fp8e5m2", kFp8E5m2}};

// The number of a code by the text-book formula.
double by_definition(const FloatFormat& f, std::uint32_t code) {
  const std::uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
  const std::uint32_t exponent = code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const std::uint32_t top = (1u << f.exponent_bits) - 1;
  const double sign = (code >> (f.mantissa_bits + f.exponent_bits) & 1) != 0 ? -1.0 : 1.0;
  const double fraction = mantissa / std::pow(2.0, f.mantissa_bits);
  if (f.has_infinity && exponent == top)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (!f.has_infinity && exponent == top && mantissa == (1u << f.mantissa_bits) - 1) return std::nan("");
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  if (exponent == 0) return sign * fraction * std::pow(2.0, 1 - bias);
  return sign * (1 + fraction) * std::pow(2.0, static_cast<int>(exponent) - bias);
}

TEST(FloatTypes, EveryCodeDecodesByItsDefinitionAndEncodesBack) {
  for (const auto& [name, format] : kFormats) {
    SCOPED_TRACE(name);
    for (std::uint32_t code = 0; code <= 2 * format.magnitude_mask() + 1; ++code) {
      const double want = by_definition(format, code);
      const float got = decode_float(format, code);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << code;
        ASSERT_TRUE(std::isnan(decode_float(format, encode_float(format, static_cast<double>(got))))) << code;
        continue;
      }
      ASSERT_EQ(static_cast<double>(got), want) << code;
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << code;
      if (std::isinf(want) && format.saturates)
        ASSERT_EQ(encode_float(format, want), code - 1) << "infinity becomes the largest number";
      else
        ASSERT_EQ(encode_float(format, want), code);
    }
  }
}

TEST(FloatTypes, HalfwayPointsGoToEvenAndTheirNeighboursToTheNearest) {
  for (const auto& [name, format] : kFormats) {
    SCOPED_TRACE(name);
    for (std::uint32_t code = 0; code < format.largest(); ++code) {
      const double low = by_definition(format, code);
      const double high = by_definition(format, code + 1);
      const double middle = low + (high - low) / 2;
      const std::uint32_t even = code % 2 == 0 ? code : code + 1;
      ASSERT_EQ(encode_float(format, middle), even) << code;
      ASSERT_EQ(encode_float(format, std::nextafter(middle, low)), code);
      ASSERT_EQ(encode_float(format, std::nextafter(middle, high)), code + 1);
      const std::uint32_t sign = format.magnitude_mask() + 1;
      ASSERT_EQ(encode_float(format, -middle), sign | even);
    }
  }
}

TEST(FloatTypes, BeyondTheRange) {
  for (const auto& [name, format] : kFormats) {
    SCOPED_TRACE(name);
    const double largest = by_definition(format, format.largest());
    const double step = largest - by_definition(format, format.largest() - 1);
    const std::uint32_t beyond = format.saturates ? format.largest() : format.infinity();
    EXPECT_EQ(encode_float(format, std::nextafter(largest + step / 2, 0.0)), format.largest());
    EXPECT_EQ(encode_float(format, largest + step / 2), beyond)
        << "half a step beyond rounds to the even code, out of range";
    for (const double far : {largest * 2, 1e300, std::numeric_limits<double>::infinity()})
      EXPECT_EQ(encode_float(format, far), beyond);
    EXPECT_TRUE(std::isnan(decode_float(format, encode_float(format, std::nan("")))));
    EXPECT_EQ(encode_float(format, std::numeric_limits<double>::denorm_min()), 0u);
    EXPECT_EQ(encode_float(format, -0.0), format.magnitude_mask() + 1);
  }
  EXPECT_EQ(from_fp8e4m3(0x7e), 448.0F);
  EXPECT_EQ(from_fp8e5m2(0x7b), 57344.0F);
  EXPECT_EQ(from_fp16(0x7bff), 65504.0F);
  EXPECT_EQ(to_bf16(3.3895313892515355e38), 0x7f7f);
}

TEST(FloatTypes, EveryFloatWithAnInterestingTopHalfRoundsLikeTheNearestCode) {
  // All upper halves of a float with lower halves around the rounding points of bf16: the bit trick everybody uses,
  // checked against it.
  for (std::uint32_t top = 0; top < 0x10000; ++top)
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto value = std::bit_cast<float>(top << 16 | low);
      if (std::isnan(value)) continue;
      const std::uint32_t bits = top << 16 | low;
      const auto want = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      ASSERT_EQ(to_bf16(static_cast<double>(value)), want) << bits;
    }
}

TEST(ElementType, NamesParseBackAndUnknownOnesAreRefused) {
  for (const ElementType type : kElementTypes) {
    const auto parsed = parse_element_type(to_string(type));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, type);
  }
  const auto unknown = parse_element_type("bf61");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().text().find("bf16"), std::string::npos);
}

TEST(ElementType, ArraysAndSingleElementsAgreeInEveryType) {
  std::vector<float> values(1000);
  fill_normal(values, {7, 1}, 100.0F);
  for (const ElementType type : kElementTypes) {
    SCOPED_TRACE(to_string(type));
    std::vector<std::byte> stored(values.size() * size_of(type) + 1);
    store_elements(type, values, stored.data() + 1);  // unaligned on purpose
    std::vector<double> loaded(values.size());
    load_elements(type, stored.data() + 1, loaded);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(loaded[i], round_to(type, static_cast<double>(values[i])));
      ASSERT_EQ(loaded[i], load_element(type, stored.data() + 1, i));
      if (!is_floating(type)) continue;
      const auto exact = static_cast<double>(values[i]);
      ASSERT_LE(std::abs(loaded[i] - exact), unit_roundoff(type) * std::abs(exact) + smallest_subnormal(type) / 2);
    }
  }
}

TEST(ElementType, IntegersClampAndRoundToEven) {
  EXPECT_EQ(round_to(ElementType::int8, 127.5), 127);
  EXPECT_EQ(round_to(ElementType::int8, -1e9), -128);
  EXPECT_EQ(round_to(ElementType::uint8, -3), 0);
  EXPECT_EQ(round_to(ElementType::int32, 2.5), 2);
  EXPECT_EQ(round_to(ElementType::int32, std::nan("")), 0);
  EXPECT_EQ(round_to(ElementType::boolean, -0.5), 1);
  std::int64_t big = 0;
  store_element(ElementType::int64, &big, 0, 1e300);
  EXPECT_EQ(big, std::numeric_limits<std::int64_t>::max());
}

/// At every offset within a vector, of codes that lie at odd addresses; no neighbour is written.
template <class Number>
void expect_decoded(const FloatFormat& format, std::size_t size) {
  const std::uint32_t codes = 1u << (8 * size);
  for (const std::uint32_t first : {0u, 1u, 7u, codes - 37}) {
    const std::size_t count = codes - first;
    std::vector<std::byte> bytes(1 + count * size);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t code = first + static_cast<std::uint32_t>(i);
      std::memcpy(&bytes[1 + i * size], &code, size);
    }
    std::vector<Number> decoded(count + 1, Number{77});
    decode_floats(format, &bytes[1], decoded.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto want = static_cast<Number>(decode_float(format, first + static_cast<std::uint32_t>(i)));
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(decoded[i])) << first + i;
      else
        ASSERT_TRUE(decoded[i] == want && std::signbit(decoded[i]) == std::signbit(want)) << first + i;
    }
    EXPECT_EQ(decoded[count], Number{77});
  }
}

TEST(FloatTypes, ArraysAreDecodedAsElementsAre) {
  for (const FloatFormat& format : {kBf16, kFp16}) {
    expect_decoded<float>(format, 2);
    expect_decoded<double>(format, 2);
  }
  for (const FloatFormat& format : {kFp8E4m3, kFp8E5m2}) {
    expect_decoded<float>(format, 1);
    expect_decoded<double>(format, 1);
  }
}

TEST(FloatTypes, ArraysAreEncodedAsElementsAre) {
  // Every sign, exponent and upper mantissa, with what decides a rounding below them.
  std::vector<float> values;
  for (std::uint32_t top = 0; top < 0x10000; ++top)
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(top << 16 | low));
  for (std::uint32_t bits = 0x33000000u; bits < 0x48000000u; bits += 0x1fff)  // the range of the narrow formats
    values.push_back(std::bit_cast<float>(bits));
  for (const FloatFormat& format : {kBf16, kFp16, kFp8E4m3, kFp8E5m2}) {
    const std::size_t size = format.exponent_bits + format.mantissa_bits < 8 ? 1 : 2;
    for (const std::size_t first : {0u, 1u, 7u}) {
      const std::size_t count = values.size() - first;
      std::vector<std::byte> codes(1 + (count + 1) * size, std::byte{0x5a});
      encode_floats(format, &values[first], &codes[1], count);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t code = 0;
        std::memcpy(&code, &codes[1 + i * size], size);
        ASSERT_EQ(code, encode_float(format, static_cast<double>(values[first + i]))) << values[first + i];
      }
      EXPECT_EQ(codes[1 + count * size], std::byte{0x5a});
    }
  }
}

}  // namespace
}  // namespace tilesmith
