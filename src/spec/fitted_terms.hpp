// Coefficients of a model that predicts seconds as the weighted sum of terms, as specs hold them: data that
// tools/fit_model.py fitted to measurements.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {

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

/// Reads {"command", "date", "pipelines": {NAME: COEFFICIENTS}}, one at least, into a Model of `command`, `date` and
/// `kernels`, each what `named` makes of its name, with its `cycles`. Errors: parse, and those of `named`.
template <class Model, std::size_t N, class Named>
[[nodiscard]] Result<Model> read_fitted_kernels(const JsonReader& reader, const std::array<std::string_view, N>& terms,
                                                Named named) {
  TS_TRY(reader.only({"command", "date", "pipelines"}));
  Model model;
  TS_ASSIGN(model.command, reader.at("command").string());
  TS_ASSIGN(model.date, reader.at("date").string());
  TS_ASSIGN(const auto pipelines, reader.at("pipelines").members());
  if (pipelines.empty()) return reader.at("pipelines").refuse("coefficients of one kernel at least");
  for (const auto& [name, item] : pipelines) {
    TS_ASSIGN(typename Model::Kernels kernels, named(name, item));
    TS_ASSIGN(kernels.cycles, read_fitted_terms(item, terms));
    model.kernels.push_back(kernels);
  }
  return model;
}

}  // namespace tilesmith
