// A recipe that computes a problem, and how long the choosing room predicts it to take.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "vocabulary/recipe.hpp"

namespace tilesmith {

struct Candidate {
  Recipe recipe;
  double predicted_seconds = 0;
  std::optional<double> measured_seconds{};  ///< where tuning measured the recipe for the problem, or bounded it
};

/// The candidates of a problem in dispatch order, and the name of the policy that ordered them.
struct Ranking {
  std::vector<Candidate> candidates;
  std::string_view policy;
};

/// Orders by predicted seconds; ties go to the larger tile of the recipe's main kernel, then to the smaller key, so
/// that every machine of a kind chooses alike.
void best_first(std::vector<Candidate>& candidates);

}  // namespace tilesmith
