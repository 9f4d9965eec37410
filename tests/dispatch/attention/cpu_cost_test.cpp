#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/random.hpp"
#include "dispatch/attention/cpu_candidates.hpp"
#include "dispatch/attention/policy.hpp"
#include "dispatch/attention/random_problem.hpp"

namespace tilesmith {
namespace {

/// A machine that runs every level there is, so that the model is asked about all instructions wherever the test runs.
const CpuMachine& every_level() {
  static const CpuMachine machine = [] {
    CpuMachine out;
    out.levels = load_cpu_specs().value();
    std::ranges::reverse(out.levels);
    return out;
  }();
  return machine;
}

AttentionProblem random_problem(std::uint64_t seed) {
  AttentionProblem p{.data_type = std::array{DataType::fp32, DataType::bf16, DataType::fp16}[seed % 3]};
  p.head_dim_qk = p.head_dim_v = std::array{32, 64, 128}[seed / 3 % 3];
  p.mask = seed % 2 == 0 ? MaskKind::top_left : MaskKind::none;
  return testing::random_shape(p, seed);
}

double cost(const AttentionProblem& problem, const KernelConfig& config, int threads) {
  return expected_seconds(problem, config, *every_level().level(config.arch), threads);
}

TEST(CostModel, IsFiniteAndPositive) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const AttentionProblem problem = random_problem(seed);
    const auto candidates = candidates_for(problem, every_level());
    ASSERT_TRUE(candidates) << candidates.error().text();
    for (const Candidate& candidate : *candidates)
      for (const int threads : {1, 2, 7, 128}) {
        const double seconds = cost(problem, candidate.recipe.main(), threads);
        ASSERT_TRUE(std::isfinite(seconds) && seconds > 0) << seconds << " for " << testing::describe(problem);
      }
  }
}

TEST(CostModel, MoreWorkCostsMoreAndMoreThreadsCostLess) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    AttentionProblem problem = random_problem(seed);
    problem.window_left = problem.window_right = -1;
    problem.batch = std::max<std::int64_t>(1, problem.batch);
    problem.seqlen_q = std::max<std::int64_t>(1, problem.seqlen_q);
    problem.seqlen_k = std::max(problem.seqlen_q, problem.seqlen_k);
    AttentionProblem batches = problem, queries = problem, keys = problem;
    batches.batch *= 2;
    queries.seqlen_q += 1000;  // more than what fits the tiles there are
    queries.seqlen_k += 1000;
    keys.seqlen_k *= 2;
    const auto candidates = candidates_for(problem, every_level()).value();
    for (const Candidate& candidate : candidates) {
      const double one = cost(problem, candidate.recipe.main(), 1);
      EXPECT_GT(cost(batches, candidate.recipe.main(), 1), one) << testing::describe(problem);
      EXPECT_GT(cost(queries, candidate.recipe.main(), 1), one) << testing::describe(problem);
      EXPECT_GE(cost(keys, candidate.recipe.main(), 1), one) << testing::describe(problem);
      for (const int threads : {2, 16}) {
        const double many = cost(problem, candidate.recipe.main(), threads);
        // A decode kernel cuts its keys into more pieces for more threads; each piece has its price.
        EXPECT_TRUE(many <= one || candidate.recipe.main().algorithm.pipeline == Pipeline::decode)
            << testing::describe(problem);
        EXPECT_GE(cost(batches, candidate.recipe.main(), threads), many * (1 - 1e-12)) << testing::describe(problem);
      }
    }
  }
}

TEST(CostModel, ShuffledCandidatesAreRankedAlike) {
  const CostModelPolicy policy;
  std::mt19937 random(7);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const AttentionProblem problem = random_problem(seed);
    auto candidates = candidates_for(problem, every_level()).value();
    policy.rank(problem, every_level(), 4, candidates);
    EXPECT_TRUE(std::ranges::is_sorted(candidates, {}, &Candidate::predicted_seconds));
    auto again = candidates;
    std::ranges::shuffle(again, random);
    policy.rank(problem, every_level(), 4, again);
    for (std::size_t i = 0; i < candidates.size(); ++i) ASSERT_EQ(candidates[i].recipe, again[i].recipe) << i;
  }
}

TEST(CostModel, TiesGoToTheLargerTileWhateverTheOrder) {
  AttentionProblem nothing{.batch = 0};
  auto candidates = candidates_for(nothing, every_level()).value();
  CostModelPolicy().rank(nothing, every_level(), 4, candidates);
  EXPECT_EQ(candidates.front().predicted_seconds, candidates.back().predicted_seconds);
  EXPECT_TRUE(std::ranges::is_sorted(candidates, std::greater(), [](const Candidate& c) {
    return std::tuple(c.recipe.main().arch, c.recipe.main().algorithm.pipeline, c.recipe.main().algorithm.instruction,
                      c.recipe.main().algorithm.tile);
  }));
}

TEST(CostModel, ALevelThatDoesNotRunHereComesLast) {
  AttentionProblem problem{.data_type = DataType::fp32};
  auto candidates = candidates_for(problem, every_level()).value();
  CpuMachine smaller = every_level();
  std::erase_if(smaller.levels, [](const CpuSpec& spec) { return spec.arch.text() != "x86_64_v3"; });
  CostModelPolicy().rank(problem, smaller, 4, candidates);
  EXPECT_EQ(candidates.front().recipe.main().arch.text(), "x86_64_v3");
  EXPECT_TRUE(std::isinf(candidates.back().predicted_seconds));
}

TEST(CostModel, OneQueryRowDecodesAndManyStreamThroughTheFastestInstruction) {
  const auto best = [](std::int64_t seqlen_q, std::int64_t seqlen_k) {
    const AttentionProblem problem{
        .batch = 1, .heads_q = 32, .heads_kv = 8, .seqlen_q = seqlen_q, .seqlen_k = seqlen_k};
    auto candidates = candidates_for(problem, every_level()).value();
    CostModelPolicy().rank(problem, every_level(), 2, candidates);
    return candidates.front().recipe.main().algorithm;
  };
  EXPECT_EQ(best(1, 8192).pipeline, Pipeline::decode);
  EXPECT_EQ(best(1, 300).pipeline, Pipeline::decode);
  EXPECT_EQ(best(2048, 2048).pipeline, Pipeline::flash);
  EXPECT_EQ(best(2048, 2048).instruction, Instruction::amx_bf16);
}

TEST(CostModel, DecodePiecesFeedEveryThreadAndAreNoShorterThanABlock) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const AttentionProblem problem = random_problem(seed);
    const auto candidates = candidates_for(problem, every_level()).value();
    for (const Candidate& candidate : candidates)
      for (const int threads : {1, 2, 16, 200}) {
        const std::int64_t splits = splits_for(problem, candidate.recipe.main(), threads);
        if (candidate.recipe.main().algorithm.pipeline != Pipeline::decode || threads == 1) {
          EXPECT_EQ(splits, 1);
          continue;
        }
        const std::int64_t blocks =
            std::max<std::int64_t>(1, problem.seqlen_k / candidate.recipe.main().algorithm.tile[1]);
        EXPECT_GE(splits, 1);
        EXPECT_LE(splits, blocks);
        EXPECT_TRUE(splits == blocks || problem.batch * problem.heads_kv * splits >= threads || problem.batch == 0);
      }
  }
}

}  // namespace
}  // namespace tilesmith
