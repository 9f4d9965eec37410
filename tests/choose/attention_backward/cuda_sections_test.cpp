// Which calls of attention backward pass gradients of scores through memory, and in how many sections.
#include "choose/attention_backward/cuda_sections.hpp"

#include <gtest/gtest.h>

#include "choose/attention_backward/cuda.hpp"
#include "choose/random_problem.hpp"
#include "kernels/cuda/attention/backward/abi.h"

namespace tilesmith {
namespace {

constexpr std::int64_t kTokens = 16384;

/// The chip with figures of this test's own.
CudaSpec chip() {
  CudaSpec spec = testing::cuda_arch("sm_90a");
  for (CudaBackwardPipeline& one : spec.attention_bwd)
    if (one.passed_gradients)
      one.passed_gradients = {.section_blocks = 198, .most_bytes = 2'000'000'000, .efficiency = 0.5};
  return spec;
}

AttentionBackwardProblem wide_heads(std::int64_t seqlen, std::int64_t tokens = kTokens) {
  return {.batch = tokens / seqlen,
          .heads_q = 8,
          .heads_kv = 8,
          .seqlen_q = seqlen,
          .seqlen_k = seqlen,
          .head_dim_qk = 256,
          .head_dim_v = 256};
}

PassedGradients passed(const AttentionBackwardProblem& problem, const CudaSpec& spec = chip()) {
  const auto ranking = rank(spec, problem);
  if (!ranking) ADD_FAILURE() << ranking.error().text();
  return ranking ? passed_gradients(problem, ranking->candidates.front().recipe.main(), spec) : PassedGradients{};
}

TEST(EvenSection, StaysWithinAThirdOfWhatIsWanted) {
  EXPECT_EQ(even_section(4, 1), 1);
  EXPECT_EQ(even_section(0, 5), 1);
  EXPECT_EQ(even_section(5, 8), 4);   // two of four, not five and three
  EXPECT_EQ(even_section(6, 64), 8);  // no smaller last one
  for (std::int64_t heads = 1; heads < 100; ++heads)
    for (std::int64_t wanted = 1; wanted <= heads; ++wanted) {
      const std::int64_t each = even_section(wanted, heads);
      EXPECT_GE(3 * each, 2 * wanted);
      EXPECT_LE(3 * each, 4 * wanted);
    }
}

TEST(PassedGradients, HaveSectionsOfTheWantedBlocksAndPlacesForThree) {
  const PassedGradients of_512 = passed(wide_heads(512));
  EXPECT_EQ(of_512.key_blocks, 8);
  EXPECT_EQ(of_512.section_heads * of_512.sections, 256);  // even ones
  EXPECT_NEAR(static_cast<double>(of_512.section_heads * of_512.key_blocks), 198, 198.0 / 3);
  EXPECT_EQ(of_512.tile_bytes, of_512.section_heads * TS_CUDA_BACKWARD_SECTIONS * 512 * 512 * 2);
  EXPECT_EQ(of_512.counts, 256 + of_512.sections);
  const PassedGradients of_16384 = passed(wide_heads(16384));
  EXPECT_EQ(of_16384.section_heads, 1);
  EXPECT_EQ(of_16384.tile_bytes, std::int64_t{3} * 16384 * 16384 * 2);
  // Of grouped heads each has its own.
  AttentionBackwardProblem grouped = wide_heads(512);
  grouped.heads_q = 16;
  EXPECT_EQ(passed(grouped).tile_bytes, 2 * of_512.tile_bytes);
  // Fewer sections have fewer places.
  EXPECT_EQ(passed(wide_heads(1024, 1024)).tile_bytes, std::int64_t{8} * 1024 * 1024 * 2);
  EXPECT_EQ(passed(wide_heads(2048, 4096)).tile_bytes, std::int64_t{16} * 2048 * 2048 * 2);
}

TEST(PassedGradients, AreNoneOfNothingAndNoneThatTakeTooMuchMemory) {
  EXPECT_TRUE(passed(wide_heads(16384)).any());
  EXPECT_FALSE(passed(wide_heads(65536, 65536)).any());
  AttentionBackwardProblem empty = wide_heads(4096);
  empty.seqlen_q = 0;
  EXPECT_FALSE(passed(empty).any());
}

TEST(PassedGradients, AreNoneOfTraitsThatTheKernelDoesNotPass) {
  const auto with = [](auto change) {
    AttentionBackwardProblem p = wide_heads(4096);
    change(p);
    return passed(p).any();
  };
  EXPECT_FALSE(with([](auto& p) { p.bias = BiasKind::alibi; }));
  EXPECT_TRUE(with([](auto& p) { p.data_type = DataType::fp16; }));
  EXPECT_TRUE(with([](auto& p) { p.head_dim_qk = p.head_dim_v = 192, p.dropout = true; }));
  EXPECT_FALSE(with([](auto& p) { p.bias = BiasKind::elementwise; }));
  EXPECT_TRUE(with([](auto& p) { p.mode = SequenceMode::group; }));
  EXPECT_TRUE(with([](auto& p) { p.head_dim_v = 72; }));
  EXPECT_FALSE(with([](auto& p) { p.head_dim_v = 64; }));
  EXPECT_FALSE(with([](auto& p) { p.soft_cap = true; }));
  EXPECT_FALSE(with([](auto& p) { p.window_left = 100; }));
  EXPECT_FALSE(with([](auto& p) { p.bias = BiasKind::alibi, p.dalibi = true; }));
  EXPECT_FALSE(with([](auto& p) { p.data_type = DataType::fp32; }));
  EXPECT_FALSE(with([](auto& p) { p.head_dim_qk = p.head_dim_v = 128; }));
}

TEST(PassedGradients, ArePredictedToBeFaster) {
  CudaSpec without = chip();
  for (CudaBackwardPipeline& one : without.attention_bwd) one.passed_gradients.reset();
  const AttentionBackwardProblem p = wide_heads(4096);
  EXPECT_FALSE(passed(p, without).any());
  EXPECT_LT(rank(chip(), p)->candidates.front().predicted_seconds,
            rank(without, p)->candidates.front().predicted_seconds);
}

TEST(PassedGradients, AreNoneWhereFewKeysWouldKeepTheRestWaiting) {
  const auto passes = [](std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t seqlen_q,
                         std::int64_t seqlen_k, std::int64_t head_dim, MaskKind mask = MaskKind::none) {
    return passed({.batch = batch,
                   .heads_q = heads_q,
                   .heads_kv = heads_kv,
                   .seqlen_q = seqlen_q,
                   .seqlen_k = seqlen_k,
                   .head_dim_qk = head_dim,
                   .head_dim_v = head_dim,
                   .mask = mask},
                  testing::cuda_arch("sm_90a"))
        .any();
  };
  // What is faster without is not said to be slower: mma_sm80 would go first.
  const AttentionBackwardProblem few{
      .batch = 1, .heads_q = 4, .heads_kv = 4, .seqlen_q = 163, .seqlen_k = 116, .head_dim_qk = 192, .head_dim_v = 192};
  EXPECT_FALSE(passed(few).any());
  EXPECT_EQ(rank(testing::cuda_arch("sm_90a"), few).value().candidates.front().recipe.main().algorithm.pipeline,
            Pipeline::flash);
  // As timed with and without, an H200 (docs/log/2026-11-cuda-backward.md).
  EXPECT_FALSE(passes(1, 22, 1, 247, 247, 232));
  EXPECT_FALSE(passes(5, 24, 2, 885, 393, 192));
  EXPECT_FALSE(passes(6, 24, 2, 236, 198, 256, MaskKind::bottom_right));
  EXPECT_FALSE(passes(6, 1, 1, 352, 183, 136));
  EXPECT_TRUE(passes(1, 12, 1, 57, 493, 256));
  EXPECT_TRUE(passes(5, 24, 2, 174, 77, 256));
  EXPECT_TRUE(passes(16, 8, 8, 1024, 1024, 192, MaskKind::bottom_right));
  EXPECT_TRUE(passes(2, 8, 2, 4096, 4096, 256, MaskKind::bottom_right));
}

}  // namespace
}  // namespace tilesmith
