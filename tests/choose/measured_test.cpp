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

}  // namespace
}  // namespace tilesmith
