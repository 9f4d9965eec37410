// Reading the kinds of value that AMD specs are made of.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "spec/json_reader.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

template <TabledEnum E>
[[nodiscard]] Result<std::vector<E>> read_enums(const JsonReader& from) {
  TS_ASSIGN(const auto items, from.elements());
  std::vector<E> out;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const E value, item.enumerator<E>());
    out.push_back(value);
  }
  return out;
}

/// An array of exactly N figures of 0..65535.
template <std::size_t N>
[[nodiscard]] Result<std::array<std::uint16_t, N>> read_shape(const JsonReader& from) {
  TS_ASSIGN(const std::vector<int> figures, from.integers(0, 65535));
  if (figures.size() != N) return from.refuse("an array of " + std::to_string(N) + " figures");
  std::array<std::uint16_t, N> shape{};
  for (std::size_t i = 0; i < N; ++i) shape[i] = static_cast<std::uint16_t>(figures[i]);
  return shape;
}

template <std::size_t N>
[[nodiscard]] Result<std::vector<std::array<std::uint16_t, N>>> read_shapes(const JsonReader& from) {
  TS_ASSIGN(const auto items, from.elements());
  std::vector<std::array<std::uint16_t, N>> out;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const auto shape, read_shape<N>(item));
    out.push_back(shape);
  }
  return out;
}

}  // namespace tilesmith
