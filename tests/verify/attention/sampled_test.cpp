// References of large problems judge a sample of the rows by every check, and all rows by sums: they accept what the
// whole reference accepts, and find what it finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "verify/attention/reference.hpp"
#include "verify/emulated_kernel.hpp"
#include "verify/random_attention.hpp"

namespace tilesmith {
namespace {

CaseOptions large(ElementType type, std::uint64_t seed) {
  CaseOptions options{.type = type,
                      .batch = 1 + static_cast<std::int64_t>(seed % 2),
                      .heads_q = 2,
                      .heads_kv = seed % 3 == 0 ? 2 : 1,
                      .seqlen_q = 200 + static_cast<std::int64_t>(37 * seed % 90),
                      .seqlen_k = 90 + static_cast<std::int64_t>(53 * seed % 200),
                      .head_dim_qk = 16,
                      .head_dim_v = seed % 2 == 0 ? 40 : 32,
                      .heads_inside = seed % 4 == 1,
                      .row_gap = static_cast<std::int64_t>(seed % 3),
                      .bias = seed % 5 == 2,
                      .sink = seed % 5 == 3,
                      .bias_broadcast = seed % 2 == 0,
                      .bottom_right = seed % 2 == 1,
                      .soft_cap = seed % 7 == 4 ? 20.0F : 0.0F,
                      .seed = seed};
  if (seed % 3 != 1) options.window_right = 0;
  if (seed % 4 == 2) options.window_left = 70;
  return options;
}

class SampledAttention : public ::testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(Types, SampledAttention, ::testing::Values(ElementType::bf16, ElementType::fp16),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(SampledAttention, AcceptsCorrectKernels) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const CaseOptions options = large(GetParam(), seed);
    const RandomAttention c(options);
    const auto reference = AttentionReference::make_sampled(c.tensors, options.type, 1);
    ASSERT_TRUE(reference) << reference.error().text();
    EXPECT_TRUE(reference->float64().o.empty()) << "nothing was left out";
    const EmulatedResult result = emulate_kernel(
        c.tensors, options.type, {.block = seed % 2 == 0 ? 64 : 32, .splits = 1 + static_cast<std::int64_t>(seed % 3)});
    const Verdict verdict = reference->judge(result.o, result.lse);
    ASSERT_NE(verdict.outcome, Outcome::fail) << describe(options) << "\n" << verdict.reason;
  }
}

TEST_P(SampledAttention, FindsFaultsOfKernels) {
  for (const KernelFault fault :
       {KernelFault::last_block_dropped, KernelFault::rescale_missing, KernelFault::stale_split,
        KernelFault::split_weights_equal, KernelFault::tail_key_unmasked, KernelFault::scale_missing}) {
    int shown = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const CaseOptions options = large(GetParam(), seed);
      const RandomAttention c(options);
      const auto whole = AttentionReference::make(c.tensors, options.type, 1);
      const auto sampled = AttentionReference::make_sampled(c.tensors, options.type, 1);
      ASSERT_TRUE(whole && sampled);
      const EmulatedResult result = emulate_kernel(c.tensors, options.type, {.block = 32, .splits = 2, .fault = fault});
      if (whole->judge(result.o, result.lse).outcome != Outcome::fail) continue;
      ++shown;
      EXPECT_EQ(sampled->judge(result.o, result.lse).outcome, Outcome::fail) << describe(options);
    }
    EXPECT_GT(shown, 0) << static_cast<int>(fault);
  }
}

// One row anywhere: what is in no block of the sample is found by the sums.
TEST_P(SampledAttention, FindsWhatIsWrongInAnyRow) {
  const CaseOptions options = large(GetParam(), 5);
  const RandomAttention c(options);
  const auto reference = AttentionReference::make_sampled(c.tensors, options.type, 1);
  ASSERT_TRUE(reference);
  const EmulatedResult good = emulate_kernel(c.tensors, options.type, {.block = 64});
  ASSERT_NE(reference->judge(good.o, good.lse).outcome, Outcome::fail);
  const std::int64_t width = options.head_dim_v, rows = output_rows(c.tensors);
  int by_sums = 0;
  for (std::int64_t row = 0; row < rows; row += 3) {
    const auto [first, last] =
        visible_keys(c.tensors, sequence_of(c.tensors, row_position(c.tensors, row).b), row_position(c.tensors, row).i);
    if (first >= last) continue;
    EmulatedResult bad = good;
    const auto begin = bad.o.begin() + row * width;
    const float largest =
        std::abs(*std::max_element(begin, begin + width, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    *(begin + row % width) += 0.7F * largest;
    const Verdict verdict = reference->judge(bad.o, bad.lse);
    ASSERT_EQ(verdict.outcome, Outcome::fail) << row;
    by_sums += verdict.check == Check::sums;
    bad.o = good.o;
    *(bad.o.begin() + row * width) = std::nanf("");
    ASSERT_EQ(reference->judge(bad.o, bad.lse).outcome, Outcome::fail) << row;
    bad.o = good.o;
    bad.lse[static_cast<std::size_t>(row)] += 0.01F;
    ASSERT_EQ(reference->judge(bad.o, bad.lse).outcome, Outcome::fail) << row;
  }
  EXPECT_GT(by_sums, 0);
  EmulatedResult other = good;  // two heads exchanged
  std::swap_ranges(other.o.begin(), other.o.begin() + options.seqlen_q * width,
                   other.o.begin() + options.seqlen_q * width);
  EXPECT_EQ(reference->judge(other.o, other.lse).outcome, Outcome::fail);
}

TEST(SampledAttention, IsTheWholeReferenceWhereRowsAreFewOrDependOnTheirNumber) {
  const auto is_whole = [](const CaseOptions& options) {
    const RandomAttention c(options);
    const auto reference = AttentionReference::make_sampled(c.tensors, options.type, 1);
    EXPECT_TRUE(reference) << reference.error().text();
    return reference && !reference->float64().o.empty();
  };
  CaseOptions options = large(ElementType::bf16, 0);
  EXPECT_FALSE(is_whole(options));
  options.seqlen_q = 60;
  EXPECT_TRUE(is_whole(options));
  options = large(ElementType::bf16, 0);
  options.alibi = true;
  EXPECT_TRUE(is_whole(options));
  options = large(ElementType::bf16, 0);
  options.drop_threshold = 3000;
  EXPECT_TRUE(is_whole(options));
  options = large(ElementType::bf16, 0);
  options.group = true;
  EXPECT_TRUE(is_whole(options));
  options = large(ElementType::fp32, 0);
  EXPECT_TRUE(is_whole(options));
}

}  // namespace
}  // namespace tilesmith
