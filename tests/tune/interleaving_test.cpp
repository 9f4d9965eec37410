// The turns of an oracle: who drops out, who stays, and that halves judge one another.
#include "tune/interleaving.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tilesmith {
namespace {

/// Takes every turn; candidate i takes times[i] seconds. Says how often each was timed.
std::map<std::size_t, int> run(Interleaving& turns, const std::vector<double>& times) {
  std::map<std::size_t, int> counts;
  while (const auto turn = turns.next()) {
    ++counts[turn->candidate];
    turns.record({.seconds = times[turn->candidate]});
  }
  return counts;
}

TEST(Interleaving, CandidatesFarBehindAreTimedOnceAndTheOthersInEveryRound) {
  Interleaving turns(4, {.rounds = 4, .cut = 1.5});
  const auto counts = run(turns, {1.0, 1.4, 1.6, 9});
  EXPECT_EQ(counts, (std::map<std::size_t, int>{{0, 5}, {1, 5}, {2, 1}, {3, 1}}));
  EXPECT_EQ(turns.turns(1), std::vector<double>(4, 1.4));
  EXPECT_TRUE(turns.turns(3).empty());
  EXPECT_EQ(turns.look(3), 9);
}

TEST(Interleaving, TheBestOfAWatchedGroupStays) {
  Interleaving turns(4, {.rounds = 2, .cut = 1.5, .watched = {{3}, {2, 3}}});
  EXPECT_EQ(run(turns, {1.0, 1.6, 5, 9}), (std::map<std::size_t, int>{{0, 3}, {1, 1}, {2, 3}, {3, 3}}));
}

TEST(Interleaving, EachIsVerifiedOnceBehindTheLook) {
  Interleaving turns(3, {.rounds = 4});
  std::map<std::size_t, int> verified;
  while (const auto turn = turns.next()) {
    if (turn->is_verified) ++verified[turn->candidate];
    EXPECT_EQ(turn->is_verified, turn->round == 1);
    turns.record({.seconds = 1});
  }
  EXPECT_EQ(verified, (std::map<std::size_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

TEST(Interleaving, AFailureEndsTheCandidateWhereverItComes) {
  Interleaving turns(3, {.rounds = 2, .watched = {{1}}});
  int later = 0;
  while (const auto turn = turns.next()) {
    if (turn->candidate == 1) {
      turns.record({.failure = "crashed"});
    } else if (turn->candidate == 2 && turn->round == 1) {
      turns.record({.failure = "wrong"});
    } else {
      later += turn->round == 2 ? 1 : 0;
      turns.record({.seconds = 1});
    }
  }
  EXPECT_EQ(later, 1);
  EXPECT_EQ(turns.failure(1), "crashed");
  EXPECT_EQ(turns.failure(2), "wrong");
  EXPECT_EQ(turns.turns(0).size(), 2u);

  Interleaving none(2, {});
  while (none.next()) none.record({.failure = "crashed"});
  EXPECT_EQ(none.failure(0), "crashed");
}

TEST(Interleaving, CopiesThatAreGivenTheSameResultsAgree) {
  Interleaving turns(5, {.rounds = 4, .seed = 9});
  Interleaving copy = turns;
  for (double seconds = 1; const auto turn = turns.next(); seconds += 0.01) {
    ASSERT_EQ(copy.next()->candidate, turn->candidate);
    turns.record({.seconds = seconds});
    copy.record({.seconds = seconds});
  }
  EXPECT_FALSE(copy.next());
}

TEST(Interleaving, HalvesAreTheMediansOfEvenAndOddTurns) {
  EXPECT_EQ(halves_of({1, 10, 3, 30, 2, 20}), (std::array<double, 2>{2, 20}));
  EXPECT_EQ(halves_of({1, 10, 3, 30}), (std::array<double, 2>{2, 20}));
  EXPECT_EQ(halves_of({}), (std::array<double, 2>{0, 0}));
}

}  // namespace
}  // namespace tilesmith
