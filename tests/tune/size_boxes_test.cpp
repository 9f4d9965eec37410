// Boxes of several sizes: what is raced, and what is settled.
#include "tune/size_boxes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tilesmith {
namespace {

TEST(SizeBoxes, TheLongestSideIsHalved) {
  const SizeBox box{{1, 3, 1}, {100, 300, 4}};
  const auto halves = halves_of(box);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[0], (SizeBox{{1, 3, 1}, {8, 300, 4}}));
  EXPECT_EQ(halves[1], (SizeBox{{8, 3, 1}, {100, 300, 4}}));
  EXPECT_TRUE(halves_of({{1, 7, 2}, {2, 7, 3}}).empty());
}

/// A call's time: work in tiles of 64, one recipe for small work and one for large.
MeasuredCorner measured(const ChangingSizes& sizes) {
  double work = 1;
  for (const std::int64_t size : sizes) work *= static_cast<double>((size + 63) / 64);
  const double few = 1 + work, many = 4 + 0.5 * work;
  return {sizes, {0, few <= many ? 1u : 2u}, std::min(few, many)};
}

TEST(SizeBoxes, EverySizeComesIntoASettledBox) {
  const SizeBox whole{{1, 1, 1}, {1500, 900, 1}};
  BoxSearch search(whole);
  std::vector<MeasuredCorner> corners;
  std::set<ChangingSizes> raced;
  for (auto next = search.next(corners, 50); !next.empty(); next = search.next(corners, 50)) {
    EXPECT_LE(next.size(), 50u);
    for (const ChangingSizes& sizes : next) {
      EXPECT_TRUE(raced.insert(sizes).second) << "raced twice";
      corners.push_back(measured(sizes));
    }
    ASSERT_LT(raced.size(), 5000u);
  }
  EXPECT_TRUE(search.open().empty());
  for (std::int64_t m = 1; m <= 1500; m += 37)
    for (std::int64_t n = 1; n <= 900; n += 41) {
      const bool is_inside = std::ranges::any_of(search.settled(), [&](const BoxSearch::Part& part) {
        return part.box.low[0] <= m && m <= part.box.high[0] && part.box.low[1] <= n && n <= part.box.high[1];
      });
      EXPECT_TRUE(is_inside) << m << " x " << n;
    }
  for (const BoxSearch::Part& part : search.settled())
    EXPECT_TRUE(is_trusted(part.measured) || halves_of(part.box).empty());
}

TEST(SizeBoxes, WhatCannotBeRacedStaysOpen) {
  const SizeBox whole{{1, 1, 1}, {100, 100, 1}};
  BoxSearch search(whole);
  const std::vector<ChangingSizes> first = search.next({}, 8);
  EXPECT_EQ(first, (std::vector<ChangingSizes>{{1, 1, 1}, {100, 100, 1}}));
  EXPECT_EQ(search.next({}, 8), first);
  EXPECT_EQ(search.next({}, 1).size(), 1u);
  EXPECT_EQ(search.open(), std::vector{whole});
  EXPECT_TRUE(search.settled().empty());
}

TEST(SizeBoxes, OneSizeIsABox) {
  BoxSearch search({{5, 5, 1}, {5, 5, 1}});
  ASSERT_EQ(search.next({}, 8).size(), 1u);
  const std::vector<MeasuredCorner> corners{measured({5, 5, 1})};
  EXPECT_TRUE(search.next(corners, 8).empty());
  EXPECT_EQ(search.settled().size(), 1u);
}

}  // namespace
}  // namespace tilesmith
