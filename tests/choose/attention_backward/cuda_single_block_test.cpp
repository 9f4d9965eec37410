// Which calls of attention backward need no sums of dq in fp32.
#include "choose/attention_backward/cuda_single_block.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "choose/attention_backward/cuda.hpp"
#include "choose/attention_backward/cuda_walk_parts.hpp"
#include "choose/random_problem.hpp"

namespace tilesmith {
namespace {

const CudaSpec& hopper() {
  return testing::cuda_arch("sm_90a");
}

AttentionBackwardProblem problem(std::int64_t seqlen_q, std::int64_t seqlen_k) {
  return {.data_type = DataType::bf16,
          .batch = 64,
          .heads_q = 8,
          .heads_kv = 8,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim_qk = 64,
          .head_dim_v = 64};
}

/// Of the kernel that goes first.
bool stores(const AttentionBackwardProblem& p) {
  const auto ranking = rank(hopper(), p);
  if (!ranking) ADD_FAILURE() << ranking.error().text();
  return ranking && products_store_dq(p, ranking->candidates.front().recipe.main());
}

TEST(CudaSingleBlock, HasAllKeysOfAHead) {
  EXPECT_TRUE(stores(problem(77, 128)));
  EXPECT_TRUE(stores(problem(3000, 1)));
  EXPECT_FALSE(stores(problem(77, 129)));
  EXPECT_FALSE(stores(problem(77, 0)));
  AttentionBackwardProblem p = problem(77, 77);
  p.mode = SequenceMode::group;
  EXPECT_FALSE(stores(p)) << "a sequence may have no keys";
  p = problem(77, 77);
  p.head_dim_qk = p.head_dim_v = 192;
  EXPECT_FALSE(stores(p)) << "gradients have items of their own";
}

TEST(CudaSingleBlock, IsSeenByEveryQuery) {
  AttentionBackwardProblem p = problem(100, 77);
  p.mask = MaskKind::top_left;
  EXPECT_TRUE(stores(p));
  p.mask = MaskKind::bottom_right;
  EXPECT_FALSE(stores(p)) << "the first 23 queries see nothing";
  p.seqlen_q = 77;
  EXPECT_TRUE(stores(p));
  p = problem(100, 77);
  p.window_left = 30, p.window_right = 23;  // of the bottom right corner
  EXPECT_TRUE(stores(p));
  p.window_right = 22;
  EXPECT_FALSE(stores(p));
  p.window_right = 30, p.diagonal = 31;
  EXPECT_FALSE(stores(p)) << "the last query sees keys 77 and on";
  p.diagonal = 30;
  EXPECT_TRUE(stores(p));
}

/// By the definition: as many pairs as there are, row by row.
TEST(CudaSingleBlock, IsSeenByEveryQueryOfRandomMasks) {
  const RandomStream stream{11, 0};
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(stream.below(draw++, bound)); };
  int stored = 0;
  for (int i = 0; i < 500; ++i) {
    AttentionBackwardProblem p = problem(1 + below(200), 1 + below(128));
    p.mask = static_cast<MaskKind>(below(3));
    p.window_left = below(2) == 0 ? below(150) : -1;
    p.window_right = p.mask == MaskKind::none && below(2) == 0 ? below(150) : -1;
    p.diagonal = below(3) == 0 ? below(41) - 20 : 0;
    const bool windowed = p.window_left >= 0 || p.window_right >= 0;
    const bool corner = p.mask == MaskKind::bottom_right || (p.mask == MaskKind::none && windowed);
    bool all = true;
    for (std::int64_t row = 0; row < p.seqlen_q; ++row) {
      const std::int64_t at = row + (corner ? p.seqlen_k - p.seqlen_q : 0) + p.diagonal;
      const std::int64_t right = p.mask == MaskKind::none ? p.window_right : 0;
      bool sees = false;
      for (std::int64_t key = 0; key < p.seqlen_k; ++key)
        sees |= (p.window_left < 0 || key >= at - p.window_left) && (right < 0 || key <= at + right);
      all &= sees;
    }
    EXPECT_EQ(stores(p), all) << i;
    stored += all ? 1 : 0;
  }
  EXPECT_GT(stored, 100);
  EXPECT_LT(stored, 400);
}

TEST(CudaSingleBlock, TakesTwoLaunches) {
  const AttentionBackwardProblem one = problem(64, 128), two = problem(64, 129);
  const double saved = rank(hopper(), two)->candidates.front().predicted_seconds -
                       rank(hopper(), one)->candidates.front().predicted_seconds;
  EXPECT_GT(saved, hopper().reference.launch_us * 1e-6);
}

}  // namespace
}  // namespace tilesmith
