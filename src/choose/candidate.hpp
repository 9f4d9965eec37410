// A recipe that computes a problem, and how long the choosing room predicts it to take.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "vocabulary/enum_table.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// What a choice rests on (PlanInfo::source).
enum class ChoiceSource : std::uint8_t { model, table, measurement, interval, nearby, name, fallback };

template <>
struct EnumTable<ChoiceSource> {
  static constexpr std::string_view kWhat = "source of a choice";
  static constexpr auto kNames = enum_names<ChoiceSource>({{ChoiceSource::model, "model"},
                                                           {ChoiceSource::table, "table"},
                                                           {ChoiceSource::measurement, "measurement"},
                                                           {ChoiceSource::interval, "interval"},
                                                           {ChoiceSource::nearby, "nearby"},
                                                           {ChoiceSource::name, "name"},
                                                           {ChoiceSource::fallback, "fallback"}});
};

struct Candidate {
  Recipe recipe;
  double predicted_seconds = 0;
  std::optional<double> measured_seconds{};   ///< where tuning measured the recipe for the problem, or bounded it
  ChoiceSource source = ChoiceSource::model;  ///< what puts it where it is in a ranking
  double bound = 0;  ///< what it may lose to the best, as far as times were measured exactly: 1.05; 0: not known
};

/// The candidates of a problem in dispatch order, and the name of the policy that ordered them.
struct Ranking {
  std::vector<Candidate> candidates;
  std::string_view policy;
};

/// What a kernel's predicted seconds are the weighted sum of: what coefficients are fitted to.
struct ModelTerms {
  KernelConfig config;
  std::span<const std::string_view> names;
  std::vector<double> values;
};

/// Orders by predicted seconds; ties go to the larger tile of the recipe's main kernel, then to the smaller numbers of
/// its algorithm, then to the smaller key, so that every machine of a kind chooses alike.
void best_first(std::vector<Candidate>& candidates);

}  // namespace tilesmith
