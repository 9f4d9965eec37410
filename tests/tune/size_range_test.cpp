// Sizes that are raced, so that those between them have intervals.
#include "tune/size_range.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "problem/operations.hpp"

namespace tilesmith {
namespace {

TEST(SizeRange, IsTwoSizesWithAColonBetweenThem) {
  EXPECT_EQ(SizeRange::parse("3:8192")->low, 3);
  EXPECT_EQ(SizeRange::parse("3:8192")->high, 8192);
  for (const char* text : {"", "3", "3:", ":3", "0:3", "4:3", "1:2:3", "1:2x", "a:b", "-1:4", "1,2"})
    EXPECT_FALSE(SizeRange::parse(text)) << text;
}

TEST(SizeRange, BeginsWithItsEndsAndThePowersOfTwo) {
  EXPECT_EQ(first_sizes({1, 8}), (std::vector<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(first_sizes({3, 20}), (std::vector<std::int64_t>{3, 4, 8, 16, 20}));
  EXPECT_EQ(first_sizes({5, 5}), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(first_sizes({5, 6}), (std::vector<std::int64_t>{5, 6}));
}

TEST(SizeRange, EverySizeComesIntoATrustedIntervalInTheEnd) {
  // Two kernels, one for small sizes, the other for large; times in steps of 64 rows.
  const auto measured = [](std::int64_t m) {
    const double small = 1 + 0.02 * static_cast<double>(m), large = 3 + static_cast<double>((m + 63) / 64) * 0.5;
    return MeasuredSize{.size = m, .recipe = {0, small <= large ? 1u : 2u}, .seconds = std::min(small, large)};
  };
  const SizeRange range{1, 8192};
  std::vector<MeasuredSize> sizes;
  std::vector<std::int64_t> next = first_sizes(range);
  int rounds = 0;
  for (; !next.empty() && rounds < 30; ++rounds) {
    for (const std::int64_t m : next) {
      EXPECT_EQ(std::ranges::count(sizes, m, &MeasuredSize::size), 0) << m;
      sizes.push_back(measured(m));
    }
    std::ranges::sort(sizes, {}, &MeasuredSize::size);
    next = next_sizes(intervals_of(sizes, range));
    EXPECT_TRUE(std::ranges::is_sorted(next));
  }
  EXPECT_TRUE(next.empty());
  EXPECT_LT(sizes.size(), 40u);
  for (std::int64_t m = 1; m <= range.high; ++m)
    if (const auto interval = interval_of(sizes, m)) {
      EXPECT_TRUE(is_trusted(*interval)) << m;
    }
}

TEST(SizeRange, TakesTheSizesOfOneKindFromAFile) {
  TuningFile file;
  for (const auto& [device, m, n] : {std::tuple{"a", 4, 8}, {"a", 64, 8}, {"a", 16, 9}, {"b", 32, 8}}) {
    GemmProblem problem = gemm_problem(DataType::fp32, m, n, 16);
    file.choices.push_back({.device_class = device,
                            .problem = identity_of(problem),
                            .line = {},
                            .recipe = {0, static_cast<std::uint64_t>(m)},
                            .name = {},
                            .seconds = 1.0 * m});
  }
  const std::string kind = sized_identity(file.choices.front().problem)->kind;
  const auto sizes = sizes_of(file, "a", kind);
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0].size, 4);
  EXPECT_EQ(sizes[1].size, 64);
  const auto intervals = intervals_of(sizes, {1, 64});
  ASSERT_EQ(intervals.size(), 1u);
  EXPECT_DOUBLE_EQ(intervals[0].bound, 16);
  EXPECT_EQ(next_sizes(intervals), (std::vector<std::int64_t>{16}));
  EXPECT_TRUE(intervals_of(sizes, {1, 63}).empty());
}

}  // namespace
}  // namespace tilesmith
