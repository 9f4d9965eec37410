// What tuning measured, as far as choosing reads it: seconds by problem and recipe. The table is of one device; who
// measures, and keeps the figures, stands in a later station.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "choose/candidate.hpp"
#include "choose/intervals.hpp"
#include "choose/nearby.hpp"
#include "problem/operations.hpp"

namespace tilesmith {

class MeasuredTable {
 public:
  /// Keeps a figure of the problem with this identity (identity_of); an earlier one of the same problem and recipe is
  /// replaced.
  void add(std::string_view problem, Key128 recipe, double seconds);
  void add(const AnyProblem& problem, Key128 recipe, double seconds) { add(identity_of(problem), recipe, seconds); }
  [[nodiscard]] std::optional<double> find(const AnyProblem& problem, Key128 recipe) const;
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  /// Puts the candidates that were measured for this problem first, by measured seconds, and names the policy
  /// "measurements" if there are any; the others keep their order. A recipe that the ranking does not have stays out.
  /// Of a problem between two that were measured, which differ from it in a size that changes (intervals.hpp), the
  /// interval's recipe goes first, where it is trusted: the policy is "measured interval". Else, of one among problems
  /// that differ in several such sizes (nearby.hpp), the box's recipe: the policy is "nearby measurements".
  void apply(const AnyProblem& problem, Ranking& ranking) const;

 private:
  struct Entry {
    Key128 recipe;
    double seconds;
  };
  /// Puts the recipe of the interval that the problem lies in first, or that of the box. Whether there is one.
  bool apply_interval(std::string_view identity, Ranking& ranking) const;
  bool apply_nearby(std::string_view identity, Ranking& ranking) const;
  /// Whether the ranking has the recipe.
  static bool put_first(Ranking& ranking, Key128 recipe, double seconds, double bound, ChoiceSource source,
                        std::string_view policy);

  std::unordered_map<std::string, std::vector<Entry>> entries_;           ///< by the problem's identity
  std::unordered_map<std::string, std::vector<MeasuredSize>> sizes_;      ///< by SizedIdentity::kind, by rising size
  std::unordered_map<std::string, std::vector<MeasuredCorner>> corners_;  ///< by SeveralSizes::kind
};

}  // namespace tilesmith
