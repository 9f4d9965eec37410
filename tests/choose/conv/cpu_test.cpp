// How many threads CPU convolutions and gradients of attention get, and that packed filters do not depend on it.
#include "choose/conv/cpu.hpp"

#include <gtest/gtest.h>

#include "choose/attention_backward/cpu.hpp"
#include "choose/attention_backward/cpu_model.hpp"
#include "choose/cpu_threads.hpp"
#include "choose/random_problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

ConvProblem square(std::int64_t channels, std::int64_t size) {
  return {.batch = 1,
          .c = channels,
          .k = channels,
          .in_h = size,
          .in_w = size,
          .filter_h = 3,
          .filter_w = 3,
          .pad_h = 1,
          .pad_w = 1,
          .pad_high_h = 1,
          .pad_high_w = 1};
}

template <class Problem>
int threads_of(const CpuFacts& facts, const Problem& problem) {
  const KernelConfig config = rank(facts, problem).value().candidates.front().recipe.main();
  return threads_worth(problem, config, *facts.level(config.arch), facts.threads);
}

TEST(CpuConvThreads, SmallCallsStayOnOneThread) {
  for (const int threads : {2, 16}) {
    const CpuFacts facts = testing::every_level(threads);
    EXPECT_EQ(threads_of(facts, square(16, 8)), 1);
    EXPECT_EQ(threads_of(facts, square(256, 56)), threads);
  }
}

TEST(CpuConvThreads, SoDoGradientsOfAttention) {
  AttentionBackwardProblem problem;
  for (const int threads : {2, 16}) {
    const CpuFacts facts = testing::every_level(threads);
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seqlen_q = problem.seqlen_k = 16;
    EXPECT_EQ(threads_of(facts, problem), 1);
    problem.seqlen_q = problem.seqlen_k = 4096;
    EXPECT_EQ(threads_of(facts, problem), threads);
  }
}

TEST(CpuConvThreads, WhatIsFasterAloneIsFasterShared) {
  for (const std::int64_t channels : {16, 32, 48, 64, 128})
    for (const std::int64_t size : {7, 14, 28, 56})
      EXPECT_EQ(rank(testing::every_level(1), square(channels, size)).value().candidates.front().recipe,
                rank(testing::every_level(16), square(channels, size)).value().candidates.front().recipe)
          << channels << " channels, " << size;
}

TEST(CpuConvThreads, PackedFiltersAreTheSameForAnyNumber) {
  for (const std::int64_t channels : {3, 16, 64, 512})
    EXPECT_EQ(native_name(packing_kernel(testing::every_level(1), square(channels, 1)).value()),
              native_name(packing_kernel(testing::every_level(16), square(channels, 1)).value()));
}

}  // namespace
}  // namespace tilesmith
