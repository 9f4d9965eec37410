// What tuning measured, as far as choosing reads it: seconds by problem and recipe. The table is of one device; who
// measures, and keeps the figures, stands in a later station.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "choose/candidate.hpp"
#include "problem/operations.hpp"

namespace tilesmith {

class MeasuredTable {
 public:
  /// Keeps a figure; an earlier one of the same problem and recipe is replaced.
  void add(const AnyProblem& problem, Key128 recipe, double seconds);
  [[nodiscard]] std::optional<double> find(const AnyProblem& problem, Key128 recipe) const;

  /// Puts the candidates that were measured for this problem first, by measured seconds, and names the policy
  /// "measurements" if there are any; the others keep their order. A recipe that the ranking does not have stays out.
  void apply(const AnyProblem& problem, Ranking& ranking) const;

 private:
  struct Entry {
    AnyProblem problem;
    Key128 recipe;
    double seconds;
  };
  std::unordered_map<std::uint64_t, std::vector<Entry>> entries_;  ///< by the problem's hash
};

}  // namespace tilesmith
