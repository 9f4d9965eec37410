#include "base/element_type.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/float_arrays.hpp"
#include "base/float_types.hpp"

namespace tilesmith {
namespace {

// A codec turns one stored element into a number and back; `visit` hands the codec of a run-time type to generic code,
// so that loops over arrays are compiled once per type with nothing but the conversion inside.
template <class T>
struct Native {
  using Stored = T;
  static double load(T stored) { return static_cast<double>(stored); }
  static T store(double value) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(value);
    } else {
      const double rounded = std::nearbyint(value);
      if (!(rounded == rounded)) return 0;
      if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
      if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
      return static_cast<T>(rounded);
    }
  }
};

template <class Code, const FloatFormat& format>
struct Small {
  using Stored = Code;
  static constexpr const FloatFormat& kFormat = format;
  static double load(Code stored) { return decode_float(format, stored); }
  static Code store(double value) { return static_cast<Code>(encode_float(format, value)); }
};

struct Boolean {
  using Stored = std::uint8_t;
  static double load(std::uint8_t stored) { return stored != 0 ? 1.0 : 0.0; }
  static std::uint8_t store(double value) { return value != 0 ? 1 : 0; }
};

template <class F>
decltype(auto) visit(ElementType type, F&& f) {
  switch (type) {
    case ElementType::fp64:
      return f(Native<double>{});
    case ElementType::fp32:
      return f(Native<float>{});
    case ElementType::fp16:
      return f(Small<std::uint16_t, kFp16>{});
    case ElementType::bf16:
      return f(Small<std::uint16_t, kBf16>{});
    case ElementType::fp8e4m3:
      return f(Small<std::uint8_t, kFp8E4m3>{});
    case ElementType::fp8e5m2:
      return f(Small<std::uint8_t, kFp8E5m2>{});
    case ElementType::int64:
      return f(Native<std::int64_t>{});
    case ElementType::int32:
      return f(Native<std::int32_t>{});
    case ElementType::int16:
      return f(Native<std::int16_t>{});
    case ElementType::int8:
      return f(Native<std::int8_t>{});
    case ElementType::uint64:
      return f(Native<std::uint64_t>{});
    case ElementType::uint32:
      return f(Native<std::uint32_t>{});
    case ElementType::uint16:
      return f(Native<std::uint16_t>{});
    case ElementType::uint8:
      return f(Native<std::uint8_t>{});
    case ElementType::boolean:
      return f(Boolean{});
  }
  std::unreachable();
}

template <class Number>
void load_all(ElementType type, const void* source, std::span<Number> target) {
  visit(type, [&](auto codec) {
    using Codec = decltype(codec);
    if constexpr (requires { Codec::kFormat; }) {
      if (target.size() > 1) return decode_floats(Codec::kFormat, source, target.data(), target.size());
    }
    const auto* bytes = static_cast<const std::byte*>(source);
    for (std::size_t i = 0; i < target.size(); ++i) {
      typename Codec::Stored stored;  // memcpy: a file or a red-zoned buffer promises no alignment
      std::memcpy(&stored, bytes + i * sizeof stored, sizeof stored);
      target[i] = static_cast<Number>(Codec::load(stored));
    }
  });
}

template <class Number>
void store_all(ElementType type, std::span<const Number> source, void* target) {
  visit(type, [&](auto codec) {
    using Codec = decltype(codec);
    if constexpr (std::is_same_v<Number, float> && requires { Codec::kFormat; })
      return encode_floats(Codec::kFormat, source.data(), target, source.size());
    auto* bytes = static_cast<std::byte*>(target);
    for (std::size_t i = 0; i < source.size(); ++i) {
      const typename Codec::Stored stored = Codec::store(static_cast<double>(source[i]));
      std::memcpy(bytes + i * sizeof stored, &stored, sizeof stored);
    }
  });
}

}  // namespace

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::fp64:
      return "fp64";
    case ElementType::fp32:
      return "fp32";
    case ElementType::fp16:
      return "fp16";
    case ElementType::bf16:
      return "bf16";
    case ElementType::fp8e4m3:
      return "fp8e4m3";
    case ElementType::fp8e5m2:
      return "fp8e5m2";
    case ElementType::int64:
      return "int64";
    case ElementType::int32:
      return "int32";
    case ElementType::int16:
      return "int16";
    case ElementType::int8:
      return "int8";
    case ElementType::uint64:
      return "uint64";
    case ElementType::uint32:
      return "uint32";
    case ElementType::uint16:
      return "uint16";
    case ElementType::uint8:
      return "uint8";
    case ElementType::boolean:
      return "boolean";
  }
  std::unreachable();
}

Result<ElementType> parse_element_type(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ElementType type : kElementTypes) {
    if (to_string(type) == name) return type;
    names.push_back(to_string(type));
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no element type", name),
              fmt::format("known: {}", fmt::join(names, ", ")));
}

std::size_t size_of(ElementType type) {
  return visit(type, [](auto codec) { return sizeof(typename decltype(codec)::Stored); });
}

bool is_floating(ElementType type) {
  return type <= ElementType::fp8e5m2;
}

double unit_roundoff(ElementType type) {
  switch (type) {
    case ElementType::fp64:
      return 0x1p-53;
    case ElementType::fp32:
      return 0x1p-24;
    case ElementType::fp16:
      return kFp16.unit_roundoff();
    case ElementType::bf16:
      return kBf16.unit_roundoff();
    case ElementType::fp8e4m3:
      return kFp8E4m3.unit_roundoff();
    case ElementType::fp8e5m2:
      return kFp8E5m2.unit_roundoff();
    default:
      return 0;
  }
}

double smallest_subnormal(ElementType type) {
  switch (type) {
    case ElementType::fp64:
      return std::numeric_limits<double>::denorm_min();
    case ElementType::fp32:
      return static_cast<double>(std::numeric_limits<float>::denorm_min());
    case ElementType::fp16:
      return from_fp16(1);
    case ElementType::bf16:
      return from_bf16(1);
    case ElementType::fp8e4m3:
      return from_fp8e4m3(1);
    case ElementType::fp8e5m2:
      return from_fp8e5m2(1);
    default:
      return 1;
  }
}

double load_element(ElementType type, const void* data, std::size_t index) {
  double value = 0;
  load_all(type, static_cast<const std::byte*>(data) + index * size_of(type), std::span(&value, 1));
  return value;
}

void store_element(ElementType type, void* data, std::size_t index, double value) {
  store_all(type, std::span<const double>(&value, 1), static_cast<std::byte*>(data) + index * size_of(type));
}

double round_to(ElementType type, double value) {
  return visit(type, [value](auto codec) { return decltype(codec)::load(decltype(codec)::store(value)); });
}

void load_elements(ElementType type, const void* source, std::span<float> target) {
  load_all(type, source, target);
}
void load_elements(ElementType type, const void* source, std::span<double> target) {
  load_all(type, source, target);
}
void store_elements(ElementType type, std::span<const float> source, void* target) {
  store_all(type, source, target);
}
void store_elements(ElementType type, std::span<const double> source, void* target) {
  store_all(type, source, target);
}

}  // namespace tilesmith
