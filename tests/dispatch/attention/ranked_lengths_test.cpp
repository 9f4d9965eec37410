#include "dispatch/attention/ranked_lengths.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace tilesmith {
namespace {

/// A ranking that a number tells from others.
Ranking ranking_of(std::int64_t number) {
  return {{Candidate{.recipe = {}, .predicted_seconds = static_cast<double>(number)}}, "test"};
}
double number_of(const Ranking& ranking) {
  return ranking.candidates.front().predicted_seconds;
}

TEST(RankedLengths, LengthsOfABlockOfKeysAreRankedOnce) {
  RankedLengths lengths;
  int ranked = 0;
  const auto rank = [&](const AttentionProblem& p) -> Result<Ranking> {
    ++ranked;
    if (p.seqlen_q == 7) return fail(ErrorCode::unsupported, "seven");
    return ranking_of(p.seqlen_k);
  };
  const auto keys_of = [&](std::int64_t keys) {
    return number_of(lengths.of(at_end_of_block({.seqlen_k = keys}), rank).value());
  };
  for (std::int64_t keys = 1; keys <= 64; ++keys) EXPECT_EQ(keys_of(keys), 64);
  EXPECT_EQ(ranked, 1);
  EXPECT_EQ(keys_of(65), 128);
  EXPECT_EQ(keys_of(0), 0);
  EXPECT_EQ(ranked, 3);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(lengths.of({.seqlen_q = 7}, rank)) << "an error is not kept";
  EXPECT_EQ(ranked, 5);
}

TEST(RankedLengths, TheOldestGoFirst) {
  RankedLengths lengths;
  int ranked = 0;
  const auto of = [&](std::int64_t batch) {
    const auto rank = [&](const AttentionProblem& p) -> Result<Ranking> {
      ++ranked;
      return ranking_of(p.batch);
    };
    return number_of(lengths.of({.batch = batch}, rank).value());
  };
  for (int batch = 1; batch <= 17; ++batch) EXPECT_EQ(of(batch), batch);
  EXPECT_EQ(of(17), 17);
  EXPECT_EQ(of(2), 2);
  EXPECT_EQ(ranked, 17);
  EXPECT_EQ(of(1), 1);
  EXPECT_EQ(ranked, 18);
}

}  // namespace
}  // namespace tilesmith
