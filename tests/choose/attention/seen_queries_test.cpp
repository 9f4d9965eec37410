// Which queries see no key, and which kernels are predicted without them.
#include "choose/attention/seen_queries.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "choose/attention/cuda.hpp"
#include "choose/attention/whole_rows.hpp"
#include "choose/random_problem.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

const CudaSpec& hopper() {
  return testing::cuda_arch("sm_90a");
}

AttentionProblem many_queries() {
  return {.data_type = DataType::fp16,
          .batch = 14,
          .heads_q = 6,
          .heads_kv = 3,
          .seqlen_q = 8075,
          .seqlen_k = 69,
          .head_dim_qk = 64,
          .head_dim_v = 64,
          .mask = MaskKind::bottom_right};
}

TEST(SeenQueries, HiddenAreThoseInFrontWithoutAKey) {
  const RandomStream stream{11, 0};
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(stream.below(draw++, bound)); };
  for (int i = 0; i < 400; ++i) {
    AttentionProblem p{.seqlen_q = 1 + below(30), .seqlen_k = below(30), .mask = MaskKind::bottom_right};
    p.diagonal = below(2) == 0 ? 0 : below(21) - 10;
    if (below(3) == 0) p.window_left = below(12);
    if (below(3) == 0) p.mask = MaskKind::none, p.window_right = below(9);  // a window ends at both last ones, too
    const MaskWindow window = window_of(p);
    std::int64_t hidden = 0;
    const auto sees = [&](std::int64_t query, std::int64_t key) {
      const std::int64_t own = query + p.seqlen_k - p.seqlen_q + window.diagonal;
      return (window.right < 0 || key <= own + window.right) && key >= 0;
    };
    while (hidden < p.seqlen_q && !sees(hidden, 0)) ++hidden;
    EXPECT_EQ(hidden_queries(p), hidden) << p.seqlen_q << " x " << p.seqlen_k << " diagonal " << p.diagonal;
    // The others see what they saw.
    const AttentionProblem seen = with_seen_queries(p);
    EXPECT_EQ(seen.seqlen_q, p.seqlen_q - hidden);
    EXPECT_EQ(seen.seqlen_k - seen.seqlen_q - hidden, p.seqlen_k - p.seqlen_q);
  }
}

TEST(SeenQueries, KernelsThatLeaveThemOutArePredictedWithoutThem) {
  for (const std::int64_t head_dim : {64, 60}) {  // 60: on copies of rows
    AttentionProblem p = many_queries();
    p.head_dim_qk = p.head_dim_v = head_dim;
    p.unaligned = head_dim % 8 != 0;
    for (const bool counts : {false, true}) {
      p.dropout = p.lse = p.sink = counts;
      EXPECT_EQ(hidden_queries(p), 8075 - 69);
      ASSERT_TRUE(has_hidden_tiles(p));
      const auto all = rank(hopper(), p), seen = rank(hopper(), with_seen_queries(p));
      ASSERT_TRUE(all && seen);
      const auto seconds_of_seen = [&](const Candidate& one) {
        const auto same = std::ranges::find(seen->candidates, one.recipe, &Candidate::recipe);
        return same == seen->candidates.end() ? 0 : same->predicted_seconds;
      };
      const Candidate& first = all->candidates.front();
      EXPECT_GT(cuda_attention_resources(first.recipe.main()).free_warps, 0);
      double more = hidden_seconds(hopper(), p.unaligned ? with_whole_rows(p) : p);
      if (p.unaligned) more += copy_seconds(hopper(), p) - copy_seconds(hopper(), with_seen_queries(p));
      EXPECT_NEAR(first.predicted_seconds, seconds_of_seen(first) + more, 1e-9);
      for (const Candidate& one : all->candidates) {
        if (cuda_attention_resources(one.recipe.main()).free_warps > 0) continue;
        EXPECT_GT(one.predicted_seconds, 2 * seconds_of_seen(one)) << "computes the hidden ones, too";
      }
    }
  }
}

TEST(SeenQueries, FewOrThoseOfCallsWhoseChoiceMayNotDependOnThemAreNone) {
  const auto has = [](auto change) {
    AttentionProblem p = many_queries();
    change(p);
    return has_hidden_tiles(p);
  };
  EXPECT_FALSE(has([](AttentionProblem& p) { p.seqlen_q = 69; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.seqlen_q = 69 + 63; })) << "less than a tile";
  EXPECT_TRUE(has([](AttentionProblem& p) { p.seqlen_q = 69 + 64; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.seqlen_k = 0; })) << "no query sees a key";
  EXPECT_FALSE(has([](AttentionProblem& p) { p.mask = MaskKind::top_left; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.mode = SequenceMode::group; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.page_size = 16; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.batch_invariant = true; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.data_type = DataType::fp32; }));
  EXPECT_FALSE(has([](AttentionProblem& p) { p.data_type = DataType::fp8bf16; }));
}

}  // namespace
}  // namespace tilesmith
