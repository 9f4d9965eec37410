// Coefficients of a model that predicts seconds as the weighted sum of terms, as specs hold them: data that
// tools/fit_model.py fitted to measurements.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

class JsonReader;

/// Reads {NAME: COEFFICIENT}; names that are absent have 0. Errors: parse, for a name that is none of the terms and a
/// coefficient below 0.
[[nodiscard]] Status read_fitted_terms(const JsonReader& reader, std::span<const std::string_view> names,
                                       std::span<double> out);

template <std::size_t N>
[[nodiscard]] Result<std::array<double, N>> read_fitted_terms(const JsonReader& reader,
                                                              const std::array<std::string_view, N>& names) {
  std::array<double, N> out{};
  TS_TRY(read_fitted_terms(reader, names, out));
  return out;
}

}  // namespace tilesmith
