// Races on a simulated device, whose times are known: stairs, noise, drift, candidates that fail.
#include "tune/race.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "thorough.hpp"

namespace tilesmith {
namespace {

/// A device whose calls take known times, times noise, on a machine whose speed drifts.
struct SimulatedDevice {
  std::vector<double> seconds;    ///< of each candidate; infinity: it fails
  std::set<std::size_t> wrong{};  ///< candidates whose results are
  double noise = 0.01;            ///< standard deviation of a sample's logarithm
  double drift = 0;               ///< by so much the machine slows down with each step
  std::mt19937_64 random{7};
  int steps = 0;
  std::multiset<std::size_t> verified{};

  RaceResult take(const RaceStep& step) {
    ++steps;
    if (step.verifies) {
      verified.insert(step.candidate);
      return {.failure = wrong.contains(step.candidate) ? "it is wrong" : ""};
    }
    if (!std::isfinite(seconds[step.candidate])) return {.seconds = 0, .spent_s = 0.001, .failure = "it fails"};
    const double factor = std::exp(std::normal_distribution(0.0, noise)(random)) * (1 + drift * steps);
    return {.seconds = seconds[step.candidate] * factor, .spent_s = 0.001};
  }
};

Race raced(SimulatedDevice& device, RaceOptions options) {
  Race race(device.seconds.size(), options);
  while (const auto step = race.next()) race.record(device.take(*step));
  return race;
}

TEST(Race, FindsAClearlyFasterCandidate) {
  SimulatedDevice device{.seconds = {1.0, 2.0, 0.7, 1.5, 0.9}};
  const Race race = raced(device, {.incumbent = 0});
  EXPECT_EQ(race.winner(), 2u);
  EXPECT_TRUE(race.is_confirmed());
  EXPECT_EQ(race.block(2, 0).size(), 8u);
  EXPECT_EQ(race.block(2, 1).size(), 8u);
  EXPECT_TRUE(race.block(1, 0).empty()) << "twice the time is no finalist";
}

TEST(Race, WhatWasNotBetterOnceIsNotTimedAgain) {
  SimulatedDevice device{.seconds = {1.0, 1.04, 0.7, 1.0}};
  const Race race = raced(device, {.incumbent = 0, .cuts = {2}});
  EXPECT_EQ(race.winner(), 2u);
  for (const std::size_t loser : {1u, 3u}) {
    EXPECT_EQ(race.block(loser, 0).size(), 8u);
    EXPECT_TRUE(race.block(loser, 1).empty());
  }
  SimulatedDevice same{.seconds = std::vector<double>(3, 1.0)};
  EXPECT_TRUE(raced(same, {.incumbent = 1}).block(1, 1).empty()) << "nobody is left for a second block";
}

TEST(Race, ATieKeepsTheIncumbentWhateverItsPlace) {
  for (std::size_t incumbent = 0; incumbent < 6; ++incumbent) {
    SimulatedDevice device{.seconds = std::vector<double>(6, 1e-5), .noise = 0.03};
    const Race race = raced(device, {.incumbent = incumbent});
    EXPECT_EQ(race.winner(), incumbent);
    EXPECT_FALSE(race.is_confirmed());
  }
}

TEST(Race, AMachineThatSlowsDownDecidesNothing) {
  SimulatedDevice device{.seconds = std::vector<double>(8, 1e-5), .noise = 0.005, .drift = 0.004};
  EXPECT_EQ(raced(device, {.incumbent = 3}).winner(), 3u);
}

TEST(Race, FailuresLeaveTheRaceAndAFailedIncumbentIsReplaced) {
  const double fails = std::numeric_limits<double>::infinity();
  SimulatedDevice some{.seconds = {fails, 1.2, fails, 1.0, 1.4}};
  const Race race = raced(some, {.incumbent = 0});
  EXPECT_EQ(race.winner(), 3u);
  EXPECT_EQ(race.failure(0), "it fails");
  EXPECT_FALSE(race.least_seconds(2));

  SimulatedDevice all{.seconds = {fails, fails}};
  EXPECT_FALSE(raced(all, {.incumbent = 1}).winner());
  SimulatedDevice one{.seconds = {fails, 2.0}};
  EXPECT_EQ(raced(one, {.incumbent = 0}).winner(), 1u);
  SimulatedDevice alone{.seconds = {2.0}};
  EXPECT_EQ(raced(alone, {.incumbent = 0}).winner(), 0u);
}

TEST(Race, AWrongCandidateNeitherWinsNorCutsOthersOff) {
  SimulatedDevice device{.seconds = {1.0, 0.01, 0.7, 0.02, 0.75, 1.3}, .wrong = {1, 3}};
  const Race race = raced(device, {.incumbent = 0});
  EXPECT_EQ(race.winner(), 2u);
  EXPECT_EQ(race.failure(1), "it is wrong");
  EXPECT_EQ(race.failure(3), "it is wrong");
  EXPECT_EQ(race.failure(4), "");
  EXPECT_TRUE(device.verified.contains(4)) << "a finalist";
  EXPECT_FALSE(device.verified.contains(5)) << "it dropped out before";
  EXPECT_EQ(race.timings() + device.verified.size(), race.steps());

  SimulatedDevice incumbent{.seconds = {1.0, 1.05, 1.2}, .wrong = {0}};
  EXPECT_EQ(raced(incumbent, {.incumbent = 0}).winner(), 1u);
  SimulatedDevice alone{.seconds = {1.0}, .wrong = {0}};
  EXPECT_FALSE(raced(alone, {.incumbent = 0}).winner());
  SimulatedDevice all{.seconds = {1.0, 2.0, 3.0}, .wrong = {0, 1, 2}};
  EXPECT_FALSE(raced(all, {.incumbent = 1}).winner());
}

TEST(Race, ACandidateThatFailsInAFinalBlockDoesNotWin) {
  SimulatedDevice device{.seconds = {1.0, 0.5}, .noise = 0};
  Race race(2, {.incumbent = 0});
  while (const auto step = race.next())
    race.record(step->in_block && step->candidate == 1 && race.steps() > 6 ? RaceResult{.failure = "a crash"}
                                                                           : device.take(*step));
  EXPECT_EQ(race.winner(), 0u);
}

TEST(Race, ASmallBudgetStillConfirms) {
  SimulatedDevice device{.seconds = {1.0, 0.8, 0.81, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87}};
  const Race race = raced(device, {.incumbent = 0, .budget_s = 0.005});
  EXPECT_TRUE(race.is_confirmed());
  EXPECT_LE(race.steps(), race.most_steps());
}

TEST(Race, CopiesThatAreGivenTheSameResultsAgree) {
  SimulatedDevice device{.seconds = {1.0, 0.9, 1.1, 0.95, 1.05, 1.2, 0.97}, .noise = 0.05};
  Race one(7, {.incumbent = 2, .seed = 5});
  Race other = one;
  while (const auto step = one.next()) {
    EXPECT_EQ(other.next(), step);
    const RaceResult result = device.take(*step);
    one.record(result);
    other.record(result);
  }
  EXPECT_FALSE(other.next());
  EXPECT_EQ(one.winner(), other.winner());
}

/// Whatever the times and the noise: the race ends, in the steps that it promises, and what it chooses is not slower
/// than the incumbent beyond noise.
TEST(Race, NeverLosesToTheIncumbent) {
  std::mt19937_64 random(20261123);
  const int races = testing::thorough() ? 20'000 : 2'000;
  int worse = 0, regrets = 0;
  for (int i = 0; i < races; ++i) {
    SimulatedDevice device{.seconds = std::vector<double>(1 + random() % 40),
                           .noise = 0.002 + 0.03 * static_cast<double>(random() % 4)};
    device.random.seed(random());
    for (double& seconds : device.seconds) {
      seconds = 1e-5 * std::exp(std::normal_distribution(0.0, 0.3)(random));
      if (random() % 20 == 0) seconds = std::ceil(seconds * 1e6) * 1e-6;  // stairs: exact ties
      if (random() % 30 == 0) seconds = std::numeric_limits<double>::infinity();
    }
    for (std::size_t candidate = 0; candidate < device.seconds.size(); ++candidate)
      if (random() % 15 == 0) device.wrong.insert(candidate);
    const std::size_t incumbent = random() % device.seconds.size();
    const Race race = raced(device, {.incumbent = incumbent, .seed = random()});
    ASSERT_LE(race.steps(), race.most_steps());
    for (std::size_t candidate = 0; candidate < device.seconds.size(); ++candidate)
      ASSERT_LE(device.verified.count(candidate), 1u);
    const auto winner = race.winner();
    for (const std::size_t wrong : device.wrong) device.seconds[wrong] = std::numeric_limits<double>::infinity();
    const double best = *std::ranges::min_element(device.seconds);
    ASSERT_EQ(winner.has_value(), std::isfinite(best));
    if (!winner) continue;
    ASSERT_TRUE(device.verified.contains(*winner));
    worse += device.seconds[*winner] > device.seconds[incumbent];
    regrets += device.noise < 0.01 && device.seconds[*winner] > 1.05 * best;
  }
  // Three standard errors in both of two blocks: a slower candidate that wins is one race in some ten thousand.
  EXPECT_LE(worse, races / 1000);
  EXPECT_EQ(regrets, 0) << "without much noise the choice is within 5 % of the best";
}

TEST(PairedRatio, IsTheGeometricMeanOfRatios) {
  const PairedRatio paired = paired_ratio({2, 8}, {1, 1});
  EXPECT_DOUBLE_EQ(paired.ratio, 4);
  EXPECT_NEAR(paired.error, std::log(2), 1e-12);
  EXPECT_FALSE(is_better(paired_ratio({0.995, 0.995}, {1, 1}), 0.01)) << "half a percent is no gain";
  EXPECT_TRUE(is_better(paired_ratio({0.97, 0.97}, {1, 1}), 0.01));
  EXPECT_FALSE(is_better(paired_ratio({0.5, 1.3}, {1, 1}), 0.01)) << "the turns disagree";
}

}  // namespace
}  // namespace tilesmith
