// What tests of choosing among Composable Kernel's instances share: chips, and what holds of every choice.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "spec/hip/spec.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith::testing {

inline constexpr std::string_view kCkChips[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

inline CkFacts ck_facts(std::string_view arch) {
  const std::vector<HipSpec> specs = load_hip_specs().value();
  const auto spec = std::ranges::find_if(specs, [&](const HipSpec& each) { return each.arch.text() == arch; });
  return {**find_amd_chip(arch), spec->reference};
}

/// Of both policies: the recipes serve, each is there once, and twice the same call gives the same order. Returns how
/// many recipes the model ranks.
template <class Problem, class Check>
std::size_t check_ck_choice(const CkFacts& chip, const Problem& p, const Check& check_step) {
  const auto by_model = rank(chip, p);
  if (!by_model) {
    EXPECT_EQ(by_model.error().code, ErrorCode::unsupported) << by_model.error().text();
    EXPECT_FALSE(upstream_ranking(chip, p).has_value());
    return 0;
  }
  EXPECT_TRUE(std::ranges::is_sorted(by_model->candidates, {}, &Candidate::predicted_seconds));
  EXPECT_EQ(by_model->policy, "model");
  const auto by_upstream = upstream_ranking(chip, p);
  EXPECT_TRUE(by_upstream.has_value());
  EXPECT_FALSE(by_upstream->candidates.empty());
  EXPECT_LE(by_upstream->candidates.size(), by_model->candidates.size());
  std::set<Key128> keys;
  for (const Candidate& candidate : by_model->candidates) {
    EXPECT_TRUE(keys.insert(key_of(candidate.recipe)).second) << recipe_name(candidate.recipe);
    EXPECT_GT(candidate.predicted_seconds, 0);
    EXPECT_LT(candidate.predicted_seconds, 1e4);
    for (const Step& step : candidate.recipe.steps) {
      EXPECT_EQ(step.config.origin, Origin::ck);
      EXPECT_TRUE(check_step(step.config)) << kernel_name(step.config);
    }
  }
  for (const Candidate& candidate : by_upstream->candidates)
    EXPECT_TRUE(keys.contains(key_of(candidate.recipe))) << recipe_name(candidate.recipe);
  const Recipe& first = by_upstream->candidates.front().recipe;
  EXPECT_TRUE(serves(chip, first, p).has_value()) << recipe_name(first);
  const auto again = rank(chip, p);
  EXPECT_TRUE(std::ranges::equal(again->candidates, by_model->candidates, {}, &Candidate::recipe, &Candidate::recipe));
  const auto refused = refusals(chip, p);
  for (const Refusal& refusal : refused.value()) {
    EXPECT_FALSE(keys.contains(key_of(Recipe(refusal.config)))) << kernel_name(refusal.config);
    EXPECT_FALSE(refusal.rule.empty());
    EXPECT_FALSE(refusal.figures.empty());
  }
  return by_model->candidates.size();
}

}  // namespace tilesmith::testing
