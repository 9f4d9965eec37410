// Attention in two steps on AMD GPUs, decode and join, as dispatch launches it: the code objects of both are executed
// instruction by instruction, on keys in pieces, in pages and under masks, every element judged by the float64
// reference. And kernels that were broken on purpose, whose fault is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "amd/executed_hip.hpp"
#include "amd/missing.hpp"
#include "dispatch/attention/random_problem.hpp"
#include "thorough.hpp"

namespace tilesmith {
namespace {

using amdgpu::Compiler;
using testing::ExecutedDevice;
using testing::fake;

class AmdDecodeTest : public testing::EmulatedHipTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    EmulatedHipTest::SetUp();
    if (IsSkipped()) return;
    auto found = Compiler::find();
    if (!found) GTEST_SKIP() << found.error().text();
    compiler_ = std::make_unique<Compiler>(std::move(*found));
    device_ = std::make_unique<ExecutedDevice>(GetParam(), *compiler_);
  }

  /// The recipes of two steps for a problem; in the ranking's order.
  [[nodiscard]] std::vector<Candidate> recipes(const AttentionProblem& problem) const {
    std::vector<Candidate> out;
    const auto ranking = device_->attention().rank(problem);
    EXPECT_TRUE(ranking) << ranking.error().text();
    if (ranking)
      for (const Candidate& candidate : ranking->candidates)
        if (candidate.recipe.steps.size() == 2) out.push_back(candidate);
    return out;
  }

  void check(const AttentionProblem& problem, std::uint64_t seed) const {
    testing::RandomCall call(problem, seed, problem.unaligned ? 1 : 16);
    const std::vector<Candidate> all = recipes(problem);
    ASSERT_FALSE(all.empty()) << testing::describe(problem);
    const std::size_t first = testing::thorough() ? 0 : seed % all.size();
    for (std::size_t i = first; i < (testing::thorough() ? all.size() : first + 1); ++i) {
      SCOPED_TRACE(
          fmt::format("{} {} splits {}", recipe_name(all[i].recipe), testing::describe(problem), problem.splits));
      const auto plan = device_->plan(problem, all[i]);
      ASSERT_TRUE(plan) << plan.error().text();
      const std::size_t launches = fake().launches.size();
      EXPECT_EQ(device_->fault_of(call, **plan, static_cast<std::uint32_t>(seed % 4)), "");
      EXPECT_EQ(fake().launches.size(), launches + (problem.splits > 1 ? 2 : 1));
    }
  }

  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<ExecutedDevice> device_;
};

/// A problem of these traits whose keys come in `splits` pieces.
AttentionProblem decode_problem(DataType type, std::int64_t qk, std::int64_t v, const char* words, std::int64_t splits,
                                std::uint64_t seed) {
  AttentionProblem p = testing::random_shape(testing::traits(type, qk, v, words), seed);
  p.batch = 1 + static_cast<std::int64_t>(seed % 2);
  p.heads_q = std::min<std::int64_t>(p.heads_q / p.heads_kv, 3);
  p.heads_kv = 1;
  p.seqlen_q = 1 + static_cast<std::int64_t>(seed) % 5;
  p.seqlen_k = 150 + static_cast<std::int64_t>(seed % 9);
  p.splits = splits;
  return p;
}

TEST_P(AmdDecodeTest, CodeObjectsOfBothStepsComputeRight) {
  struct Row {
    const char* words;
    std::int64_t splits;
    DataType type;
    std::int64_t qk, v;
  };
  constexpr Row kRows[] = {{"paged mask lse", 3, DataType::bf16, 64, 64},
                           {"mask lse", 1, DataType::fp16, 128, 128},
                           {"paged group mask sink cap lse", 2, DataType::fp16, 128, 128},
                           {"paged alibi", 3, DataType::bf16, 72, 40},
                           {"mask drop bias lse", 3, DataType::fp16, 64, 64},
                           {"group mask lse", 5, DataType::bf16, 192, 128},
                           {"unaligned paged group mask sink lse", 3, DataType::fp16, 33, 65},
                           {"paged mask alibi cap sink drop lse", 2, DataType::bf16, 256, 256},
                           {"paged cache8 mask alibi lse", 2, DataType::fp16, 64, 64},
                           {"paged cachei8 pagescale mask cap lse", 3, DataType::bf16, 128, 96},
                           {"paged cache8 pagescale drop lse", 3, DataType::fp16, 64, 128},
                           {"unaligned cachei8 group mask bias sink", 2, DataType::bf16, 40, 33},
                           {"paged latent mask lse", 3, DataType::bf16, 576, 512},
                           {"latent group alibi lse", 1, DataType::fp16, 576, 512},
                           {"paged latent cache8 mask sink", 2, DataType::bf16, 320, 256}};
  // Every chip has a third of the rows, and every row a chip at least.
  for (std::size_t row = static_cast<std::size_t>(GetParam()) % 3; row < std::size(kRows); row += 3) {
    const Row& r = kRows[row];
    const std::uint64_t seed = 100 * static_cast<std::uint64_t>(GetParam()) + row;
    check(decode_problem(r.type, r.qk, r.v, r.words, r.splits, seed), seed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AmdDecodeTest, AMissingBarrierOrWaitIsFound) {
  AttentionProblem problem = testing::traits(DataType::bf16, 64, 64, "paged lse");
  problem.batch = problem.heads_kv = 1;
  problem.heads_q = 2;
  problem.seqlen_q = 3;
  problem.seqlen_k = 310;
  problem.page_size = 16;
  problem.splits = 2;
  testing::RandomCall call(problem, 4, 16);
  // A block of several waves, which need barriers.
  const std::vector<Candidate> all = recipes(problem);
  const auto chosen =
      std::ranges::find_if(all, [](const Candidate& each) { return each.recipe.main().algorithm.wave[0] == 2; });
  ASSERT_NE(chosen, all.end());
  const auto plan = device_->plan(problem, *chosen);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_EQ(device_->fault_of(call, **plan, 0), "");
  const auto is_wrong = [&] {
    for (std::uint32_t seed = 0; seed < 3; ++seed)
      if (!device_->fault_of(call, **plan, seed).empty()) return true;
    return false;
  };
  ASSERT_FALSE(is_wrong());
  amdgpu::Missing missing;
  for (const Step& step : chosen->recipe.steps) {
    ExecutedDevice::Kernel& kernel = device_->kernel(step.config);
    const std::vector<std::uint64_t> times = kernel.times;
    missing.remove_each(kernel.program, times, is_wrong);
  }
  missing.expect_found();
}

INSTANTIATE_TEST_SUITE_P(Chips, AmdDecodeTest, ::testing::Range(0, testing::kFakeDevices), [](const auto& index) {
  const std::string_view processor = testing::kFakeHipDevices[index.param].processor;
  return std::string(processor.substr(0, processor.find(':')));
});

}  // namespace
}  // namespace tilesmith
