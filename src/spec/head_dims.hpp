// The head dimensions of attention, as every backend's spec states them: {"min", "max", "step", "unequal_pairs"}, and
// "listed_max", if a listing ends before the maximum. `Spec` has head_dim_min, head_dim_max, head_dim_step,
// head_dim_listed_max and unequal_head_dims.
#pragma once

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {

template <class Spec>
[[nodiscard]] Status read_head_dims(const JsonReader& reader, Spec& spec) {
  TS_TRY(reader.only({"min", "max", "step", "listed_max", "unequal_pairs"}));
  TS_ASSIGN(spec.head_dim_min, reader.at("min").integer<int>(1, 4096));
  TS_ASSIGN(spec.head_dim_max, reader.at("max").integer<int>(spec.head_dim_min, 4096));
  TS_ASSIGN(spec.head_dim_step, reader.at("step").integer<int>(1, 4096));
  spec.head_dim_listed_max = spec.head_dim_max;
  if (reader.has("listed_max")) {
    TS_ASSIGN(spec.head_dim_listed_max, reader.at("listed_max").integer<int>(spec.head_dim_min, spec.head_dim_max));
  }
  TS_ASSIGN(const auto pairs, reader.at("unequal_pairs").elements());
  for (const JsonReader& pair : pairs) {
    TS_ASSIGN(const std::vector<int> dims, pair.integers(spec.head_dim_min, spec.head_dim_max));
    if (dims.size() != 2) return pair.refuse("[head_dim_qk, head_dim_v]");
    spec.unequal_head_dims.emplace_back(dims[0], dims[1]);
  }
  return {};
}

/// (head_dim_qk, head_dim_v) of a listing: the equal ones, multiples of the step, then the pairs.
template <class Spec>
[[nodiscard]] std::vector<std::pair<int, int>> listed_head_dims(const Spec& spec) {
  std::vector<std::pair<int, int>> dims;
  const int step = spec.head_dim_step;
  for (int dim = (spec.head_dim_min + step - 1) / step * step; dim <= spec.head_dim_listed_max; dim += step)
    dims.emplace_back(dim, dim);
  dims.insert(dims.end(), spec.unequal_head_dims.begin(), spec.unequal_head_dims.end());
  return dims;
}

}  // namespace tilesmith
