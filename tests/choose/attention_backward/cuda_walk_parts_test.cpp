// Which calls of attention backward share the walks of their blocks of keys out, and how far.
#include "choose/attention_backward/cuda_walk_parts.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "choose/attention_backward/cuda.hpp"
#include "choose/random_problem.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

const CudaSpec& hopper() {
  return testing::cuda_arch("sm_90a");
}

AttentionBackwardProblem problem(std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t seqlen_q,
                                 std::int64_t seqlen_k, std::int64_t head_dim) {
  return {.data_type = DataType::bf16,
          .batch = batch,
          .heads_q = heads_q,
          .heads_kv = heads_kv,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim_qk = head_dim,
          .head_dim_v = head_dim};
}

CudaWalkParts parts_of(const AttentionBackwardProblem& p) {
  const auto ranking = rank(hopper(), p);
  if (!ranking) ADD_FAILURE() << ranking.error().text();
  return ranking ? cuda_walk_parts(p, ranking->candidates.front().recipe.main(), hopper()) : CudaWalkParts{};
}

TEST(CudaWalkParts, AreOfHeadsFirst) {
  const CudaWalkParts of_heads = parts_of(problem(1, 15, 1, 318, 318, 80));  // three blocks of keys, five tiles of 64
  EXPECT_EQ(of_heads.of_heads, 15);
  EXPECT_LE(of_heads.of_tiles, 2);
  EXPECT_EQ(parts_of(problem(6, 17, 1, 67, 67, 128)).of_heads, 17) << "two tiles of each head";
  const CudaWalkParts of_both = parts_of(problem(3, 2, 1, 2510, 87, 64));  // three blocks, 20 tiles of 128
  EXPECT_EQ(of_both.of_heads, 2);
  EXPECT_GE(of_both.of_tiles, 4);
  const CudaWalkParts of_tiles = parts_of(problem(1, 1, 1, 3100, 100, 128));  // one block, 49 tiles of 64
  EXPECT_EQ(of_tiles.of_heads, 1);
  EXPECT_GE(of_tiles.of_tiles, 8);
}

TEST(CudaWalkParts, AreOfTilesWhereHeadsDoNotDivide) {
  const CudaWalkParts prime = parts_of(problem(2, 29, 1, 5268, 263, 128));  // six blocks, 22 SMs for each
  EXPECT_EQ(prime.of_heads, 1);
  EXPECT_GE(prime.of_tiles, 20);
  const CudaWalkParts twice = parts_of(problem(1, 46, 1, 3000, 500, 64));  // four blocks, 33 SMs for each
  EXPECT_EQ(twice.of_heads, 23);
  EXPECT_EQ(twice.of_tiles, 1);
}

TEST(CudaWalkParts, AreNoneWhereBlocksFillTheChipOrWalksAreShort) {
  EXPECT_EQ(parts_of(problem(4, 32, 8, 1024, 1024, 128)).all(), 1);
  EXPECT_EQ(parts_of(problem(1, 8, 8, 128, 512, 64)).all(), 1);
  EXPECT_EQ(parts_of(problem(20, 1, 1, 50, 50, 64)).all(), 1);
  EXPECT_EQ(parts_of(problem(1, 8, 1, 1000, 0, 64)).all(), 1);
  EXPECT_EQ(parts_of(problem(1, 8, 1, 0, 1000, 64)).all(), 1);
  EXPECT_EQ(parts_of(problem(0, 8, 1, 1000, 1000, 64)).all(), 1);
}

TEST(CudaWalkParts, OfWideHeadsAreOfItemsOf64Keys) {
  const CudaWalkParts few = parts_of(problem(1, 22, 1, 247, 247, 232));  // four items of 88 steps
  EXPECT_EQ(few.of_heads, 22);
  EXPECT_EQ(few.of_tiles, 1);
  EXPECT_EQ(parts_of(problem(4, 8, 1, 464, 608, 136)).of_heads, 2) << "40 items leave room for three times as many";
  EXPECT_GT(parts_of(problem(1, 1, 1, 3000, 130, 256)).of_tiles, 8);
  EXPECT_EQ(parts_of(problem(8, 4, 4, 500, 500, 256)).all(), 1);
}

TEST(CudaWalkParts, AreNoneOfMmaKernelsAndBesideAGradientOfSlopes) {
  AttentionBackwardProblem p = problem(1, 8, 1, 1000, 300, 64);
  EXPECT_GT(parts_of(p).all(), 1);
  p.bias = BiasKind::alibi;
  EXPECT_GT(parts_of(p).all(), 1);
  p.dalibi = true;
  EXPECT_EQ(parts_of(p).all(), 1);
  p = problem(1, 8, 1, 1000, 300, 64);
  p.data_type = DataType::fp32;
  EXPECT_EQ(parts_of(p).all(), 1);
}

TEST(CudaWalkParts, SeesWhatAMaskLeavesOfAWalk) {
  AttentionBackwardProblem p = problem(1, 1, 1, 2000, 100, 128);
  const CudaWalkParts whole = parts_of(p);
  p.window_left = p.window_right = 100;
  EXPECT_LT(parts_of(p).all(), whole.all());
}

TEST(CudaWalkParts, DivideGroupsAndFitTheChip) {
  const RandomStream stream{7, 0};
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(stream.below(draw++, bound)); };
  for (int i = 0; i < 300; ++i) {
    const std::int64_t kv = 1 + below(6), group = 1 + below(16);
    const AttentionBackwardProblem p =
        problem(1 + below(4), kv * group, kv, 1 + below(3000), 1 + below(1500), 8 * (1 + below(32)));
    const CudaWalkParts parts = parts_of(p);
    EXPECT_EQ(group % parts.of_heads, 0);
    const std::int64_t items = p.batch * kv * ceil_div(p.seqlen_k, std::int64_t{p.head_dim_qk > 128 ? 64 : 128});
    if (parts.of_tiles > 1) {  // heads are shared out as far as they go
      for (std::int64_t heads = parts.of_heads + 1; heads <= std::min(group, hopper().reference.sms / items); ++heads)
        EXPECT_NE(group % heads, 0);
    }
    if (parts.all() > 1) {
      EXPECT_LE(items * parts.all(), hopper().reference.sms);
      EXPECT_LE(parts.of_tiles, ceil_div(p.seqlen_q, std::int64_t{64}));
    }
  }
}

}  // namespace
}  // namespace tilesmith
