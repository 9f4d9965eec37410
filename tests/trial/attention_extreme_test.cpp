// Numbers at the ends of float32: a framework's masks add the type's lowest number.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "trial/attention/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Rows of every kind of bias that a product with log2(e) would take beyond float32.
std::vector<float> extreme_bias(std::int64_t rows, std::int64_t keys) {
  std::vector<float> bias(static_cast<std::size_t>(rows * keys), 0.25F);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* row = bias.data() + i * keys;
    const std::int64_t half = keys / 2;
    switch (i % 8) {
      case 0:
        std::fill_n(row, keys, kLowest);  // the mean of v
        break;
      case 1:
        std::fill_n(row, half, -2.5e38F);  // the keys behind weigh nothing
        std::fill_n(row + half, keys - half, kLowest);
        break;
      case 2:
        row[keys - 1] = 2.4e38F;
        break;
      case 3:
        std::fill_n(row, keys, -kInfinity);  // sees nothing
        break;
      case 4:
        std::fill_n(row, half, -kInfinity);
        std::fill_n(row + half, keys - half, kLowest);
        break;
      case 5:
        std::fill_n(row, half, kLowest);
        std::fill_n(row + half, keys - half, 3e38F);
        break;
      case 6:
        std::fill_n(row, half, kLowest);
        break;
      default:
        break;
    }
  }
  return bias;
}

void expect_right(const AttentionProblem& problem, AttentionNumbers numbers) {
  SCOPED_TRACE(problem.seqlen_q);
  AttentionInputs inputs;
  if (problem.bias == BiasKind::elementwise)
    inputs.bias = make_array(ElementType::fp32, {problem.seqlen_q, problem.seqlen_k},
                             extreme_bias(problem.seqlen_q, problem.seqlen_k));
  const auto made = AttentionCase::create({problem, numbers}, std::move(inputs));
  ASSERT_TRUE(made) << made.error().text();
  const auto reference = made->reference(1);
  ASSERT_TRUE(reference) << reference.error().text();
  Dispatcher dispatcher({.threads = 2, .build = BuildPolicy::never});
  const auto plan = dispatcher.plan(made->problem());
  ASSERT_TRUE(plan) << plan.error().text();
  auto trial = make_trial(*made, {});
  ASSERT_TRUE(trial) << trial.error().text();
  const auto verdict = trial->verify(**plan, **reference);
  ASSERT_TRUE(verdict) << verdict.error().text();
  EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->reason << " " << (*plan)->kernel_name();
}

TEST(AttentionExtremes, ABiasOfAnySizeKeepsItsMeaning) {
  for (const std::int64_t queries : {1, 3, 70})
    for (const std::int64_t dim : {64, 37})
      expect_right({.data_type = DataType::fp32,
                    .heads_q = 2,
                    .heads_kv = 2,
                    .seqlen_q = queries,
                    .seqlen_k = 700,
                    .head_dim_qk = dim,
                    .head_dim_v = dim,
                    .bias = BiasKind::elementwise,
                    .lse = true},
                   {});
}

TEST(AttentionExtremes, ASoftCapOfAnySizeIsFinite) {
  for (const float cap : {1e20F, 3e38F})
    for (const std::int64_t queries : {1, 70})
      expect_right({.data_type = DataType::fp32,
                    .heads_q = 2,
                    .heads_kv = 2,
                    .seqlen_q = queries,
                    .seqlen_k = 300,
                    .head_dim_qk = 64,
                    .head_dim_v = 64,
                    .soft_cap = true,
                    .lse = true},
                   {.soft_cap = cap});
}

}  // namespace
}  // namespace tilesmith
