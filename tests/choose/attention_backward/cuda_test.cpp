// Which CUDA kernels compute attention backward, and why others do not.
#include "choose/attention_backward/cuda.hpp"

#include <gtest/gtest.h>

#include "choose/attention/whole_rows.hpp"
#include "choose/determinism.hpp"
#include "choose/random_problem.hpp"
#include "problem/attention_backward/problem.hpp"

namespace tilesmith {
namespace {

AttentionBackwardProblem backward_problem(std::int64_t head_dim, std::int64_t seqlen = 4096) {
  return {.batch = 4,
          .heads_q = 16,
          .heads_kv = 16,
          .seqlen_q = seqlen,
          .seqlen_k = seqlen,
          .head_dim_qk = head_dim,
          .head_dim_v = head_dim};
}

std::vector<Candidate> ranked(const AttentionBackwardProblem& problem) {
  auto ranking = rank(testing::cuda_arch("sm_90a"), problem);
  if (!ranking) ADD_FAILURE() << ranking.error().text();
  return ranking ? std::move(ranking->candidates) : std::vector<Candidate>{};
}

std::string refusal_of(const AttentionBackwardProblem& problem, std::string_view arch = "sm_90a") {
  const auto ranking = rank(testing::cuda_arch(arch), problem);
  return ranking ? "" : ranking.error().text();
}

TEST(CudaBackwardRank, NarrowHeadsTakeTheLargerTileWhereTraitsLeaveRegisters) {
  AttentionBackwardProblem p = backward_problem(64);
  EXPECT_EQ(ranked(p).front().recipe.main().algorithm.tile[0], 128);
  p.soft_cap = true;
  for (const Candidate& one : ranked(p)) EXPECT_EQ(one.recipe.main().algorithm.tile[0], 64);
}

TEST(CudaBackwardRank, WideHeadsTakeBlocksOfEachGradientsRows) {
  for (const std::int64_t head_dim : {136, 192, 256})
    EXPECT_EQ(ranked(backward_problem(head_dim)).front().recipe.main().algorithm.pipeline, Pipeline::flash);
}

TEST(CudaBackwardRank, AdditionsInAnyOrderAreFasterAndBitwiseDeterminismLeavesTheOrderedOnes) {
  std::vector<Candidate> candidates = ranked(backward_problem(128));
  EXPECT_FALSE(candidates.front().recipe.is_bitwise());
  ASSERT_TRUE(order_for(Determinism::bitwise, candidates).has_value());
  for (const Candidate& one : candidates) EXPECT_TRUE(one.recipe.is_bitwise());
  EXPECT_EQ(candidates.front().recipe.main().algorithm.pipeline, Pipeline::warp_specialized);
  EXPECT_TRUE(candidates.front().recipe.main().attention().deterministic);
}

TEST(CudaBackwardRank, PredictionsGrowWithTheWork) {
  double last = 0;
  for (const std::int64_t seqlen : {0, 128, 1024, 4096, 16384}) {
    const double seconds = ranked(backward_problem(128, seqlen)).front().predicted_seconds;
    EXPECT_GT(seconds, last) << seqlen;
    last = seconds;
  }
  AttentionBackwardProblem causal = backward_problem(128);
  causal.mask = MaskKind::top_left;
  EXPECT_LT(ranked(causal).front().predicted_seconds, ranked(backward_problem(128)).front().predicted_seconds);
}

TEST(CudaBackwardRank, WhatHoppersOwnKernelsDoNotTakeIsLeftToMma) {
  AttentionBackwardProblem fp32 = backward_problem(256), packed = backward_problem(33), wide = backward_problem(256);
  fp32.data_type = DataType::fp32;
  packed.mode = SequenceMode::group;
  wide.dropout = true;
  for (const AttentionBackwardProblem& p : {fp32, packed, wide})
    EXPECT_EQ(ranked(p).front().recipe.main().algorithm.pipeline, Pipeline::mma_sm80);
  for (const std::string_view arch : {"sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"})
    EXPECT_EQ(refusal_of(backward_problem(128), arch), "");
}

TEST(CudaBackwardRank, RowsThatBeginAnywhereAreCopiedOrReadByElementsAsPredictionsSay) {
  const CudaSpec& spec = testing::cuda_arch("sm_90a");
  AttentionBackwardProblem unaligned = backward_problem(128);
  unaligned.unaligned = true;
  for (const AttentionBackwardProblem& p :
       {unaligned, backward_problem(20), backward_problem(33), backward_problem(57), backward_problem(201)}) {
    const AttentionBackwardProblem whole = with_whole_rows(p);
    EXPECT_EQ(whole.head_dim_qk, (p.head_dim_qk + 7) / 8 * 8);
    bool by_elements = false;
    for (const Candidate& one : ranked(p)) {
      EXPECT_TRUE(serves(spec, one.recipe, p)) << recipe_name(one.recipe);
      const AttentionSignature& s = one.recipe.main().attention();
      by_elements |= s.unaligned;
      EXPECT_EQ(copies_rows(one.recipe.main(), p), !s.unaligned);
      EXPECT_EQ(s.head_dim_qk, s.unaligned ? p.head_dim_qk : whole.head_dim_qk);
      EXPECT_GT(one.predicted_seconds, s.unaligned ? 0 : copy_seconds(spec, p));
    }
    EXPECT_TRUE(by_elements);
    EXPECT_FALSE(ranked(p).front().recipe.main().attention().unaligned) << p.head_dim_qk;
  }
}

TEST(CudaBackwardRank, WhatNoKernelComputesIsRefusedWithTheReason) {
  EXPECT_NE(refusal_of(backward_problem(264)).find("rule head_dims_fit"), std::string::npos);
}

TEST(CudaBackwardServes, ARecipeWhoseProductsHaveTheTraitsOrMore) {
  const CudaSpec& spec = testing::cuda_arch("sm_90a");
  AttentionBackwardProblem plain = backward_problem(128), masked = plain;
  masked.mask = MaskKind::bottom_right;
  masked.window_left = 100;
  masked.dropout = true;
  const Recipe wide = ranked(masked).front().recipe, narrow = ranked(plain).front().recipe;
  EXPECT_TRUE(serves(spec, wide, plain).has_value());
  EXPECT_TRUE(serves(spec, narrow, plain).has_value());
  EXPECT_FALSE(serves(spec, narrow, masked).has_value());
  Recipe mixed = wide;
  mixed.steps.front() = ranked(backward_problem(64)).front().recipe.steps.front();
  EXPECT_FALSE(serves(spec, mixed, plain).has_value()) << "its kernels do not agree about the workspace";
  EXPECT_FALSE(serves(spec, Recipe(wide.main()), plain).has_value());
  EXPECT_FALSE(serves(testing::cuda_arch("sm_80"), wide, plain).has_value());
}

TEST(CudaBackwardSignature, SinksAndTheirGradientsAreNoTraits) {
  AttentionBackwardProblem p = backward_problem(128);
  const AttentionSignature plain = cuda_signature_of(p);
  p.sink = p.dsink = p.dlse = p.negative_scale = true;
  EXPECT_EQ(cuda_signature_of(p), plain);
  p.bias = BiasKind::alibi;
  p.dalibi = true;
  EXPECT_TRUE(cuda_signature_of(p).dbias);
}

}  // namespace
}  // namespace tilesmith
