#include "base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "base/parallel.hpp"
#include "base/philox.hpp"

namespace tilesmith {
namespace {

// The three lines for "philox4x32 10" in the authors' file of known answers (tests/kat_vectors of Random123).
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, FillsDependOnPositionNotOnThreadsOrLength) {
  std::vector<float> one(100001);
  std::vector<float> many(one.size());
  std::vector<float> shorter(70003);
  const auto fills = {+[](std::span<float> t, unsigned n) {
                        fill_normal(t, {5, 2}, 1.0F, n);
                      },
                      +[](std::span<float> t, unsigned n) {
                        fill_uniform(t, {5, 2}, -1.0F, 1.0F, n);
                      },
                      +[](std::span<float> t, unsigned n) {
                        fill_integers(t, {5, 2}, -3, 3, n);
                      }};
  for (const auto fill : fills) {
    fill(one, 1);
    fill(many, 7);
    fill(shorter, 2);
    EXPECT_EQ(one, many);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), one.begin()));
  }
}

TEST(Random, NormalNumbersHaveTheMomentsOfTheDistribution) {
  std::vector<float> values(400000);
  fill_normal(values, {11, 0}, 2.0F);
  double mean = 0, square = 0, fourth = 0;
  for (const float value : values) {
    const double x = static_cast<double>(value) / 2;
    mean += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(mean / count, 0.0, 5 / std::sqrt(count));
  EXPECT_NEAR(square / count, 1.0, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth / count, 3.0, 5 * std::sqrt(96 / count));
}

// Many at a time, without the library's functions; the words at both ends are in a block of their own.
TEST(Random, NormalNumbersAreThoseOfTheFormula) {
  const RandomStream stream{0x123456789abcdefu, 0xfedcba987654321u};
  std::vector<float> values(200001);
  fill_normal(values, stream, 1.5F);
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    const std::size_t block = i / 4;
    const PhiloxCounter words =
        philox4x32({static_cast<std::uint32_t>(block), 0, 0x87654321u, 0xfedcba9u}, {0x89abcdefu, 0x1234567u});
    const double radius = 1.5 * std::sqrt(-2 * std::log((words[i % 4] + 1.0) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * 0x1p-32 * words[i % 4 + 1];
    ASSERT_NEAR(values[i], radius * std::cos(angle), 1e-7 * radius) << i;
    ASSERT_NEAR(values[i + 1], radius * std::sin(angle), 1e-7 * radius) << i;
  }
}

TEST(Random, UniformNumbersFillTheirRangeAndStayInside) {
  std::vector<float> values(100000);
  fill_uniform(values, {11, 0}, -0.25F, 0.75F);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -0.25F);
  EXPECT_LT(*most, 0.75F);
  EXPECT_LT(*least, -0.249F);
  EXPECT_GT(*most, 0.749F);
  fill_integers(values, {12, 0}, -2, 2);
  EXPECT_EQ(std::set<float>(values.begin(), values.end()), (std::set<float>{-2, -1, 0, 1, 2}));
}

TEST(Random, SeedsAndStreamsDiffer) {
  const RandomStream a{1, 1}, b{1, 2}, c{2, 1};
  EXPECT_EQ(a.bits(7), (RandomStream{1, 1}.bits(7)));
  EXPECT_NE(a.bits(7), b.bits(7));
  EXPECT_NE(a.bits(7), c.bits(7));
  EXPECT_NE(a.bits(7), a.bits(6));
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_LT(a.below(i, 3), 3u);
    EXPECT_LT(a.uniform(i), 1.0);
    EXPECT_GE(a.uniform(i), 0.0);
  }
}

TEST(Parallel, EveryIndexRunsOnce) {
  for (const unsigned threads : {0u, 1u, 3u, 64u}) {
    std::vector<std::atomic<int>> runs(97);
    parallel_for(runs.size(), threads, [&](std::size_t index) { ++runs[index]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace tilesmith
