// Attention backward on AMX, in software where the machine has none: cases with their checks, as a dispatcher runs
// them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/attention_backward/cpu.hpp"
#include "codegen/cpu_kernel_harness.hpp"
#include "codegen/emulated_tiles.hpp"
#include "dispatch/test_store.hpp"
#include "problem/attention_backward/problem.hpp"
#include "problem/line.hpp"
#include "trial/attention_backward/case.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

/// A kernel that no registry has, on the calling thread.
class LoneKernel final : public AttentionBackwardPlan {
 public:
  LoneKernel(const AttentionBackwardPlan& other, const TsCpuKernel& kernel)
      : AttentionBackwardPlan(other.problem(), other.info()), kernel_(kernel) {}

  Status run(const AttentionBackwardArguments& arguments, const RunOptions&) const override {
    const TsAttentionBackwardArgs args = cpu_arguments(problem(), arguments, nullptr);
    run_kernel(kernel_, &args);
    return {};
  }

 private:
  const TsCpuKernel& kernel_;
};

class MatrixTiles : public ::testing::TestWithParam<const char*> {};

TEST_P(MatrixTiles, AgreeWithTheReference) {
  const auto line = parse_line(fmt::format("attention_bwd --dtype bf16 {}", GetParam()));
  ASSERT_TRUE(line) << line.error().text();
  const auto problem_case = AttentionBackwardCase::create(std::get<RandomCall<AttentionBwd>>(*line));
  ASSERT_TRUE(problem_case) << problem_case.error().text();
  const AttentionBackwardProblem& problem = problem_case->problem();
  auto source = cpu_attention_backward_source({.name = "test",
                                               .level = CpuLevel::x86_64_amx,
                                               .pipeline = Pipeline::flash,
                                               .instruction = Instruction::amx_bf16,
                                               .element = ElementType::bf16,
                                               .head_dim_qk = static_cast<int>(problem.head_dim_qk),
                                               .head_dim_v = static_cast<int>(problem.head_dim_v),
                                               .tile_m = 64,
                                               .tile_n = 128,
                                               .soft_cap = problem.soft_cap,
                                               .dropout = problem.dropout});
  ASSERT_TRUE(source) << source.error().text();
  if (!machine_has(CpuLevel::x86_64_v4_bf16)) GTEST_SKIP() << "the kernel's vectors are AVX512-BF16";
  if (!machine_has(CpuLevel::x86_64_amx)) source->text = with_emulated_tiles(source->text);
  const auto kernel = compile_kernel(*source, std::getenv("TILESMITH_CACHE_DIR"));
  ASSERT_TRUE(kernel) << kernel.error().text();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(problem);
  ASSERT_TRUE(plan) << plan.error().text();
  auto trial = Trial<AttentionBwd>::create(*problem_case, Device{});
  const auto verdict = trial->verify(LoneKernel(**plan, **kernel), **problem_case->reference());
  ASSERT_TRUE(verdict) << verdict.error().text();
  EXPECT_EQ(verdict->outcome, Outcome::pass) << verdict->tensor << ": " << verdict->reason;
}

INSTANTIATE_TEST_SUITE_P(
    Problems, MatrixTiles,
    ::testing::Values("--heads-q 2 --heads-kv 1 --seqlen-q 97 --seqlen-k 161 --head-dim-qk 64",
                      "--heads-q 2 --seqlen-q 75 --seqlen-k 45 --head-dim-qk 64 --mask bottom_right",
                      "--heads-q 1 --seqlen-q 161 --seqlen-k 203 --head-dim-qk 96 --head-dim-v 32 --window 51,30",
                      "--mode group --batch 3 --heads-q 2 --seqlen-q 70 --seqlen-k 90 --head-dim-qk 32 --mask top_left "
                      "--dropout 0.2 --softcap 3"),
    [](const auto& which) { return std::to_string(which.index); });

}  // namespace
}  // namespace tilesmith
