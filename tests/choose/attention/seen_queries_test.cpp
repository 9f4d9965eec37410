// Which queries see no key, and which problems have their zeros written by a launch.
#include "choose/attention/seen_queries.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "choose/attention/cuda.hpp"
#include "choose/random_problem.hpp"
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

TEST(SeenQueries, ManyHiddenOnesAreFilled) {
  const AttentionProblem p = many_queries();
  EXPECT_EQ(hidden_queries(p), 8075 - 69);
  EXPECT_TRUE(fills_hidden_queries(hopper(), p));
  const auto whole = rank(hopper(), p), rest = rank(hopper(), with_seen_queries(p));
  ASSERT_TRUE(whole && rest);
  EXPECT_EQ(whole->candidates.front().recipe, rest->candidates.front().recipe);
  EXPECT_GT(whole->candidates.front().predicted_seconds, rest->candidates.front().predicted_seconds);
}

TEST(SeenQueries, FewOrThoseThatCountFromTheFirstAreNot) {
  const auto filled = [](auto change) {
    AttentionProblem p = many_queries();
    change(p);
    return fills_hidden_queries(hopper(), p);
  };
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.seqlen_q = 69; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.batch = p.heads_q = p.heads_kv = 1; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.seqlen_k = 0; })) << "no query sees a key";
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.mask = MaskKind::top_left; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.mode = SequenceMode::group; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.page_size = 16; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.dropout = true; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.lse = true; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.batch_invariant = true; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.unaligned = true; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.head_dim_v = 60; }));
  EXPECT_FALSE(filled([](AttentionProblem& p) { p.data_type = DataType::fp32; }));
}

}  // namespace
}  // namespace tilesmith
