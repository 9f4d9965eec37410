// Measured seconds go before predicted ones.
#include "choose/measured.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "choose/determinism.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/random_problem.hpp"

namespace tilesmith {
namespace {

/// The ranking that dispatch sees under the table.
Ranking rank_under(const MeasuredTable& table, const CudaSpec& spec, const GemmProblem& problem) {
  Ranking ranking = rank(spec, problem).value();
  table.apply(problem, ranking);
  return ranking;
}

TEST(Measured, CandidatesThatWereMeasuredGoFirstByTheirTimes) {
  const CudaSpec& spec = testing::cuda_arch("sm_90a");
  const GemmProblem problem = gemm_problem(DataType::bf16, 512, 1024, 2048);
  const Ranking plain = rank(spec, problem).value();
  ASSERT_GT(plain.candidates.size(), 6u);
  EXPECT_EQ(plain.policy, "tile table");
  MeasuredTable table;
  table.add(problem, key_of(plain.candidates[5].recipe), 9e-6);
  table.add(problem, key_of(plain.candidates[3].recipe), 5e-6);
  table.add(problem, key_of(plain.candidates[5].recipe), 4e-6);  // measured again
  table.add(problem, Key128{1, 2}, 1e-9);                        // a recipe of another version
  const Ranking tuned = rank_under(table, spec, problem);
  EXPECT_EQ(tuned.policy, "measurements");
  ASSERT_EQ(tuned.candidates.size(), plain.candidates.size());
  EXPECT_EQ(tuned.candidates[0].recipe, plain.candidates[5].recipe);
  EXPECT_EQ(tuned.candidates[0].measured_seconds, 4e-6);
  EXPECT_EQ(tuned.candidates[0].source, ChoiceSource::measurement);
  EXPECT_DOUBLE_EQ(tuned.candidates[0].bound, 1);
  EXPECT_DOUBLE_EQ(tuned.candidates[1].bound, 1.25);
  EXPECT_EQ(tuned.candidates[2].source, plain.candidates[0].source);
  EXPECT_EQ(tuned.candidates[2].bound, 0) << "nothing is known";
  EXPECT_EQ(tuned.candidates[1].recipe, plain.candidates[3].recipe);
  EXPECT_EQ(tuned.candidates[2].recipe, plain.candidates[0].recipe) << "the others keep their order";
  EXPECT_FALSE(tuned.candidates[2].measured_seconds);

  GemmProblem other = problem;
  other.k += 64;
  EXPECT_EQ(rank_under(table, spec, other).policy, "tile table");
  EXPECT_EQ(rank_under(table, spec, other).candidates.front().recipe,
            rank(spec, other).value().candidates.front().recipe);
}

TEST(Measured, AMeasuredFirstIsNotDisplacedByAPrediction) {
  const CudaSpec& spec = testing::cuda_arch("sm_90a");
  const GemmProblem problem = gemm_problem(DataType::bf16, 128, 256, 16384);
  MeasuredTable table;
  const Ranking plain = rank(spec, problem).value();
  table.add(problem, key_of(plain.candidates.front().recipe), 1.0);
  Ranking tuned = rank_under(table, spec, problem);
  ASSERT_TRUE(order_for(Determinism::tolerant, tuned.candidates));
  EXPECT_EQ(tuned.candidates.front().recipe, plain.candidates.front().recipe);
}

TEST(MeasuredIntervals, IdentitiesArePartedFromTheSizeThatChanges) {
  GemmProblem gemm = gemm_problem(DataType::bf16, 512, 1024, 2048);
  const auto sized = sized_identity(identity_of(gemm));
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->size, 512);
  gemm.m = 1;  // the default, which no identity has
  EXPECT_EQ(sized_identity(identity_of(gemm))->kind, sized->kind);
  EXPECT_EQ(sized_identity(identity_of(gemm))->size, 1);
  gemm.n += 1;
  EXPECT_NE(sized_identity(identity_of(gemm))->kind, sized->kind);
  AttentionProblem attention;
  attention.seqlen_k = 77;
  EXPECT_EQ(sized_identity(identity_of(attention))->size, 77);
  EXPECT_FALSE(sized_identity("pack_b;m=3;"));
}

TEST(MeasuredIntervals, AreBoundedByTheTimesAtTheirEnds) {
  const Key128 one{1, 1}, two{2, 2};
  const std::vector<MeasuredSize> sizes{
      {16, one, 1.0}, {64, two, 1.05}, {100, two, 1.5}, {128, one, 1.4}, {400, one, 4}};
  EXPECT_FALSE(interval_of(sizes, 8));
  EXPECT_FALSE(interval_of(sizes, 64));
  EXPECT_FALSE(interval_of(sizes, 401));
  EXPECT_FALSE(interval_of({}, 3));
  const auto flat = interval_of(sizes, 17);
  EXPECT_EQ(flat->recipe, two);
  EXPECT_EQ(flat->low, 16);
  EXPECT_EQ(flat->high, 64);
  EXPECT_DOUBLE_EQ(flat->bound, 1.05);
  EXPECT_TRUE(is_trusted(*flat));
  EXPECT_TRUE(is_trusted(*interval_of(sizes, 99))) << "a bound of 1.43, but near ends with one recipe";
  EXPECT_DOUBLE_EQ(interval_of(sizes, 127)->bound, 1) << "a larger size was no slower";
  EXPECT_FALSE(is_trusted(*interval_of(sizes, 200))) << "one recipe, but far ends and a bound of 2.9";
}

TEST(MeasuredIntervals, HoldOnEverySizeOfAStaircase) {
  // Kernels whose time rises in steps of their tile: whatever was measured where, no size inside has more regret than
  // the bound.
  const auto seconds = [](int kernel, std::int64_t m) {
    const std::int64_t tile = 16 << kernel;
    return 1.0 + static_cast<double>((m + tile - 1) / tile) * (0.1 + 0.14 * kernel);
  };
  const auto best = [&](std::int64_t m) {
    int found = 0;
    for (int kernel = 1; kernel < 4; ++kernel)
      if (seconds(kernel, m) < seconds(found, m)) found = kernel;
    return found;
  };
  std::vector<MeasuredSize> sizes;
  for (std::int64_t m = 1; m <= 2048; m = m * 5 / 4 + 1)
    sizes.push_back({m, Key128{0, static_cast<std::uint64_t>(best(m))}, seconds(best(m), m)});
  int inside = 0;
  for (std::int64_t m = 1; m <= 2048; ++m) {
    const auto interval = interval_of(sizes, m);
    if (!interval) continue;
    ++inside;
    EXPECT_LE(seconds(static_cast<int>(interval->recipe.lo), m) / seconds(best(m), m), interval->bound + 1e-12) << m;
  }
  EXPECT_GT(inside, 1500);
}

TEST(MeasuredIntervals, TheirRecipeGoesFirstBetweenTunedSizes) {
  const CudaSpec& spec = testing::cuda_arch("sm_90a");
  const auto at = [](std::int64_t m) { return gemm_problem(DataType::bf16, m, 1024, 2048); };
  const Ranking plain = rank(spec, at(90)).value();
  const Key128 chosen = key_of(plain.candidates[3].recipe);
  MeasuredTable table;
  table.add(at(64), key_of(plain.candidates[5].recipe), 5.0e-6);
  table.add(at(128), chosen, 5.2e-6);
  const Ranking between = rank_under(table, spec, at(90));
  EXPECT_EQ(between.policy, "measured interval");
  EXPECT_EQ(key_of(between.candidates[0].recipe), chosen);
  EXPECT_EQ(between.candidates[0].measured_seconds, 5.2e-6);
  EXPECT_EQ(between.candidates[0].source, ChoiceSource::interval);
  EXPECT_DOUBLE_EQ(between.candidates[0].bound, 1.04);
  EXPECT_EQ(between.candidates[1].recipe, plain.candidates[0].recipe) << "the others keep their order";
  EXPECT_EQ(between.candidates.size(), plain.candidates.size());
  EXPECT_EQ(rank_under(table, spec, at(128)).policy, "measurements");
  EXPECT_NE(rank_under(table, spec, at(129)).policy, "measured interval");
  table.add(at(128), chosen, 9e-6);  // measured again: a bound of 1.8
  EXPECT_NE(rank_under(table, spec, at(90)).policy, "measured interval");
}

TEST(Nearby, IdentitiesArePartedFromAllSizesThatChange) {
  AttentionProblem attention;
  attention.batch = 3;
  attention.seqlen_q = 5;
  attention.seqlen_k = 77;
  attention.heads_q = 8;
  const auto sized = sizes_of_identity(identity_of(attention));
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->sizes, (ChangingSizes{77, 5, 3}));
  AttentionProblem other = attention;
  other.batch = other.seqlen_q = other.seqlen_k = 1;  // defaults, which no identity has
  EXPECT_EQ(sizes_of_identity(identity_of(other))->kind, sized->kind);
  EXPECT_EQ(sizes_of_identity(identity_of(other))->sizes, (ChangingSizes{1, 1, 1}));
  other.heads_q = 4;
  EXPECT_NE(sizes_of_identity(identity_of(other))->kind, sized->kind);
  GemmProblem gemm = gemm_problem(DataType::bf16, 512, 1024, 2048);
  gemm.batch = 6;
  EXPECT_EQ(sizes_of_identity(identity_of(gemm))->sizes, (ChangingSizes{512, 6, 1}));
  EXPECT_FALSE(sizes_of_identity("pack_b;m=3;"));
}

TEST(Nearby, BoxesHaveTheLeastBoundThatCornersGive) {
  const Key128 one{1, 1}, two{2, 2};
  const std::vector<MeasuredCorner> corners{
      {{16, 2, 1}, one, 1.0}, {{32, 2, 1}, one, 1.2}, {{64, 4, 1}, two, 1.25}, {{64, 8, 1}, one, 2.0}};
  const auto box = box_around(corners, {40, 3, 1});
  ASSERT_TRUE(box);
  EXPECT_EQ(box->low, (ChangingSizes{32, 2, 1}));
  EXPECT_EQ(box->high, (ChangingSizes{64, 4, 1}));
  EXPECT_EQ(box->recipe, two);
  EXPECT_DOUBLE_EQ(box->bound, 1.25 / 1.2);
  EXPECT_TRUE(is_trusted(*box));
  EXPECT_FALSE(is_trusted(*box_around(corners, {40, 6, 1}))) << "one recipe, but eight times the size, and 1.67";
  EXPECT_FALSE(box_around(corners, {8, 2, 1})) << "no corner below";
  EXPECT_FALSE(box_around(corners, {64, 16, 1})) << "no corner above";
}

TEST(Nearby, ARecipeOfABoxGoesFirstAndSaysItsBound) {
  const CudaSpec& spec = testing::cuda_arch("sm_90a");
  const auto at = [](std::int64_t m, std::int64_t batch) {
    GemmProblem problem = gemm_problem(DataType::bf16, m, 1024, 2048);
    problem.batch = batch;
    return problem;
  };
  const Ranking plain = rank(spec, at(90, 3)).value();
  const Key128 chosen = key_of(plain.candidates[3].recipe);
  MeasuredTable table;
  table.add(at(64, 2), key_of(plain.candidates[5].recipe), 5.0e-6);
  table.add(at(128, 4), chosen, 5.5e-6);
  const Ranking between = rank_under(table, spec, at(90, 3));
  EXPECT_EQ(between.policy, "nearby measurements");
  EXPECT_EQ(key_of(between.candidates[0].recipe), chosen);
  EXPECT_EQ(between.candidates[0].source, ChoiceSource::nearby);
  EXPECT_DOUBLE_EQ(between.candidates[0].bound, 1.1);
  EXPECT_EQ(between.candidates[1].recipe, plain.candidates[0].recipe) << "the others keep their order";
  EXPECT_NE(rank_under(table, spec, at(90, 5)).policy, "nearby measurements");
  table.add(at(128, 4), chosen, 9e-6);  // measured again: a bound of 1.8
  EXPECT_NE(rank_under(table, spec, at(90, 3)).policy, "nearby measurements");
}

}  // namespace
}  // namespace tilesmith
