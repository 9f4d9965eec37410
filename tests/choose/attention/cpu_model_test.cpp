#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/random.hpp"
#include "choose/attention/cpu.hpp"
#include "choose/attention/cpu_model.hpp"
#include "choose/attention/cpu_terms.hpp"
#include "choose/random_problem.hpp"

namespace tilesmith {
namespace {

const CpuFacts& every_level() {
  static const CpuFacts facts = testing::every_level(1);
  return facts;
}

AttentionProblem random_problem(std::uint64_t seed) {
  AttentionProblem p{.data_type = std::array{DataType::fp32, DataType::bf16, DataType::fp16}[seed % 3]};
  p.head_dim_qk = p.head_dim_v = std::array{32, 64, 128}[seed / 3 % 3];
  const AttentionProblem sizes = testing::random_attention(static_cast<unsigned>(seed));
  p.batch = sizes.batch;
  p.heads_q = sizes.heads_q;
  p.heads_kv = sizes.heads_kv;
  p.seqlen_q = sizes.seqlen_q;
  p.seqlen_k = sizes.seqlen_k;
  p.mask = seed % 2 == 0 ? MaskKind::top_left : MaskKind::none;
  return p;
}

CpuFacts on_threads(int threads) {
  CpuFacts facts = every_level();
  facts.threads = threads;
  return facts;
}

std::vector<Candidate> ranked(const AttentionProblem& problem, int threads) {
  return rank(on_threads(threads), problem).value().candidates;
}

double cost(const AttentionProblem& problem, const KernelConfig& config, int threads) {
  return predicted_seconds(problem, config, *every_level().level(config.arch), threads);
}

TEST(CpuAttentionModel, IsFiniteAndPositive) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const AttentionProblem problem = random_problem(seed);
    for (const Candidate& candidate : ranked(problem, 1))
      for (const int threads : {1, 2, 7, 128}) {
        const double seconds = cost(problem, candidate.recipe.main(), threads);
        ASSERT_TRUE(std::isfinite(seconds) && seconds > 0) << seconds << " for " << seed;
      }
  }
}

TEST(CpuAttentionModel, MoreWorkCostsMoreAndMoreThreadsCostLess) {
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
    const auto candidates = ranked(problem, 1);
    for (const Candidate& candidate : candidates) {
      const double one = cost(problem, candidate.recipe.main(), 1);
      EXPECT_GT(cost(batches, candidate.recipe.main(), 1), one) << seed;
      EXPECT_GT(cost(queries, candidate.recipe.main(), 1), one) << seed;
      EXPECT_GE(cost(keys, candidate.recipe.main(), 1), one) << seed;
      for (const int threads : {2, 16}) {
        const double many = cost(problem, candidate.recipe.main(), threads);
        // A decode kernel cuts its keys into more pieces for more threads; each piece has its price.
        EXPECT_TRUE(many <= one || candidate.recipe.main().algorithm.pipeline == Pipeline::decode) << seed;
        EXPECT_GE(cost(batches, candidate.recipe.main(), threads), many * (1 - 1e-12)) << seed;
      }
    }
  }
}

TEST(CpuAttentionModel, ShuffledCandidatesAreRankedAlike) {
  std::mt19937 random(7);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto candidates = ranked(random_problem(seed), 4);
    EXPECT_TRUE(std::ranges::is_sorted(candidates, {}, &Candidate::predicted_seconds));
    auto again = candidates;
    std::ranges::shuffle(again, random);
    best_first(again);
    for (std::size_t i = 0; i < candidates.size(); ++i) ASSERT_EQ(candidates[i].recipe, again[i].recipe) << i;
  }
}

TEST(CpuAttentionModel, TiesGoToTheLargerTileWhateverTheOrder) {
  const auto candidates = ranked({.batch = 0}, 4);
  EXPECT_EQ(candidates.front().predicted_seconds, candidates.back().predicted_seconds);
  EXPECT_TRUE(std::ranges::is_sorted(candidates, std::greater(), [](const Candidate& c) {
    const KernelConfig& config = c.recipe.main();
    return std::tuple(config.arch, config.algorithm.pipeline, config.algorithm.instruction, config.algorithm.tile);
  }));
}

TEST(CpuAttentionModel, AChipWhoseUnitsHaveHalfTheWidthTakesLonger) {
  const CpuSpec& level = *every_level().level(ArchName::parse("x86_64_v4").value());
  const CpuSpec full = on_chip(level, "AuthenticAMD 26"), half = on_chip(level, "AuthenticAMD 25");
  const AttentionProblem problem{.data_type = DataType::fp32, .batch = 4, .seqlen_q = 1024, .seqlen_k = 1024};
  for (const Candidate& candidate : ranked(problem, 1)) {
    const KernelConfig& config = candidate.recipe.main();
    if (config.arch == full.arch) {
      EXPECT_GT(predicted_seconds(problem, config, half, 1), 1.5 * predicted_seconds(problem, config, full, 1));
    }
  }
}

TEST(CpuAttentionModel, OneQueryRowDecodesAndManyStreamThroughTheFastestInstruction) {
  const auto best = [](std::int64_t seqlen_q, std::int64_t seqlen_k) {
    const AttentionProblem problem{
        .batch = 1, .heads_q = 32, .heads_kv = 8, .seqlen_q = seqlen_q, .seqlen_k = seqlen_k};
    return ranked(problem, 2).front().recipe.main().algorithm;
  };
  EXPECT_EQ(best(1, 8192).pipeline, Pipeline::decode);
  EXPECT_EQ(best(1, 300).pipeline, Pipeline::decode);
  EXPECT_EQ(best(2048, 2048).pipeline, Pipeline::flash);
  EXPECT_EQ(best(2048, 2048).instruction, Instruction::amx_bf16);
}

TEST(CpuAttentionModel, DecodePiecesFeedEveryThreadAndAreNoShorterThanABlock) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const AttentionProblem problem = random_problem(seed);
    const auto candidates = ranked(problem, 1);
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

/// The level's fastest flash kernel of a tile.
KernelConfig flash_kernel(const AttentionProblem& problem, int rows, int keys) {
  for (const Candidate& candidate : ranked(problem, 1)) {
    const KernelConfig& config = candidate.recipe.main();
    if (config.algorithm.pipeline == Pipeline::flash && config.algorithm.instruction != Instruction::amx_bf16 &&
        config.algorithm.tile[0] == rows && config.algorithm.tile[1] == keys)
      return config;
  }
  ADD_FAILURE() << "no flash kernel of " << rows << "x" << keys;
  return {};
}

TEST(CpuAttentionModel, ShortSequencesOfHeadsThatShareKeysShareTiles) {
  AttentionProblem group{.data_type = DataType::bf16, .heads_q = 8, .heads_kv = 1, .seqlen_q = 8, .seqlen_k = 153};
  AttentionProblem one = group;
  one.heads_q = 1;
  one.seqlen_q = 64;
  const KernelConfig config = flash_kernel(group, 64, 128);
  EXPECT_DOUBLE_EQ(cost(group, config, 1), cost(one, config, 1));
}

TEST(CpuAttentionModel, TheLastBlockEndsWithTheLastKey) {
  const AttentionProblem few{.data_type = DataType::bf16, .heads_q = 4, .heads_kv = 4, .seqlen_q = 64, .seqlen_k = 40};
  EXPECT_DOUBLE_EQ(cost(few, flash_kernel(few, 64, 64), 1), cost(few, flash_kernel(few, 64, 256), 1));
}

TEST(CpuAttentionModel, ATileOfMoreQueriesConvertsFewerKeys) {
  const AttentionProblem prefill{
      .data_type = DataType::bf16, .batch = 2, .seqlen_q = 544, .seqlen_k = 544, .head_dim_qk = 64, .head_dim_v = 64};
  EXPECT_LT(cost(prefill, flash_kernel(prefill, 64, 256), 1), cost(prefill, flash_kernel(prefill, 16, 64), 1));
}

}  // namespace
}  // namespace tilesmith
