#include "verify/compare.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "verify/tolerance.hpp"

namespace tilesmith {
namespace {

TEST(MeasureErrors, GivesEveryFigureOfASmallExample) {
  const std::array<double, 4> got{1.0, 2.5, -3.0, 0.0};
  const std::array<double, 4> want{1.0, 2.0, -4.0, 0.0};
  const ErrorFigures figures = measure_errors(got, want);
  EXPECT_EQ(figures.count, 4u);
  EXPECT_DOUBLE_EQ(figures.max_abs, 1.0);
  EXPECT_DOUBLE_EQ(figures.max_rel, 0.25);
  EXPECT_DOUBLE_EQ(figures.mean_abs, 1.5 / 4);
  EXPECT_DOUBLE_EQ(figures.rms, std::sqrt(1.25 / 4));
  EXPECT_EQ(figures.worst, 2u);
  EXPECT_DOUBLE_EQ(figures.worst_got, -3.0);
  EXPECT_DOUBLE_EQ(figures.worst_want, -4.0);
  const double inner = 1 + 5 + 12, x = 1 + 6.25 + 9, y = 1 + 4 + 16;
  EXPECT_NEAR(figures.norm_wise, 1 - 2 * inner / (x + y), 1e-15);
}

TEST(MeasureErrors, WhatIsNotFiniteIsInfinitelyWrongUnlessItIsWanted) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::array<double, 2> infinite{-kInfinity, 1.0};
  EXPECT_EQ(measure_errors(infinite, std::array{-kInfinity, 1.0}).max_abs, 0.0);
  EXPECT_EQ(measure_errors(infinite, std::array{kInfinity, 1.0}).max_abs, kInfinity);
  EXPECT_EQ(measure_errors(infinite, std::array{0.0, 1.0}).max_abs, kInfinity);
  EXPECT_EQ(measure_errors(std::array{std::nan(""), 1.0}, std::array{0.0, 1.0}).max_abs, kInfinity);
  EXPECT_EQ(measure_errors(std::array{std::nan(""), 1.0}, std::array{0.0, 1.0}).worst, 0u);
  EXPECT_EQ(measure_errors(std::span<const double>{}, {}).count, 0u);
  EXPECT_EQ(measure_errors(std::array{1.0}, std::array{0.0}).norm_wise, 1.0);
  EXPECT_EQ(measure_errors(std::array{0.0}, std::array{0.0}).norm_wise, 0.0);
}

TEST(Tolerance, FinerTypesHaveTighterLimits) {
  const auto fp32 = attention_tolerance(ElementType::fp32);
  const auto fp16 = attention_tolerance(ElementType::fp16);
  const auto bf16 = attention_tolerance(ElementType::bf16);
  const auto fp8 = attention_tolerance(ElementType::fp8e4m3);
  ASSERT_TRUE(fp32 && fp16 && bf16 && fp8);
  EXPECT_LT(fp32->norm_wise, fp16->norm_wise);
  EXPECT_LT(fp16->norm_wise, bf16->norm_wise);
  EXPECT_LT(bf16->norm_wise, fp8->norm_wise);
  const ElementTerms terms{.value = 0.1, .spread = 0.05, .magnitude = 10, .keys = 1000};
  EXPECT_LT(attention_bound(*fp32, ElementType::fp32, terms), attention_bound(*fp16, ElementType::fp16, terms));
  EXPECT_LT(attention_bound(*fp16, ElementType::fp16, terms), attention_bound(*bf16, ElementType::bf16, terms));
  EXPECT_LT(attention_bound(*bf16, ElementType::bf16, terms), 0.01 * terms.value + 0.02 * terms.spread + 1e-5);
  EXPECT_FALSE(attention_tolerance(ElementType::int8));
}

TEST(Tolerance, ProductLimitsGrowWithTheLength) {
  EXPECT_DOUBLE_EQ(product_hard_factor(1024, 0x1p-24), 0x1p-14);
  EXPECT_DOUBLE_EQ(product_working_factor(1024, 0x1p-24), 6 * 32 * 0x1p-24);
  EXPECT_GT(product_working_factor(16, 0x1p-24), product_hard_factor(16, 0x1p-24))
      << "short sums: the hard limit is the smaller one";
  EXPECT_NEAR(lse_bound({}, 0, 0), 1e-5, 1e-12);
  EXPECT_NEAR(lse_bound({}, -100, 0), 1e-3 + 1e-5, 1e-9);
}

}  // namespace
}  // namespace tilesmith
