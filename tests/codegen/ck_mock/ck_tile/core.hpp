// A stand-in for CK Tile's core (README.md of this folder).
#pragma once

#include <cstdint>
#include <type_traits>

#if !defined(TILESMITH_CK_VERSION)
#error "TILESMITH_CK_VERSION is not set"
#endif

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(unsigned a, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace ck_tile {

using index_t = std::int32_t;
using long_index_t = std::int64_t;

struct half_t {
  std::uint16_t bits;
};
struct bf16_t {
  std::uint16_t bits;
};
struct fp8_t {
  std::uint8_t bits;
};
struct bf8_t {
  std::uint8_t bits;
};

template <index_t... kFigures>
struct sequence {
  static constexpr index_t kSize = sizeof...(kFigures);
  static constexpr index_t kProduct = (kFigures * ...);
  static constexpr index_t at(index_t place) {
    const index_t figures[] = {kFigures...};
    return figures[place];
  }
};

template <class... Entries>
struct tuple {
  static constexpr int kSize = sizeof...(Entries);
};
template <class... Entries>
tuple<Entries...> make_tuple(Entries...) {
  return {};
}
namespace element_wise {
struct PassThrough {};
}  // namespace element_wise

template <class T>
inline constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, half_t> || std::is_same_v<T, bf16_t> ||
                                 std::is_same_v<T, fp8_t> || std::is_same_v<T, bf8_t>;

#if TILESMITH_CK_VERSION >= 202605
struct gfx9_t {};
struct gfx950_t {};
struct gfx11_t {};
struct gfx12_t {};
struct gfx125_t {};
#endif

}  // namespace ck_tile
