// What mixtures of experts and low precision take, on a CUDA device: groups, scales of blocks, integer weights, against
// float64.
#include <gtest/gtest.h>

#include <set>

#include "dispatch/backend.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/cuda/device.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

class CudaGemmExperts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
    backend = open_backend({DeviceKind::cuda, 0}, 1).value();
  }

  /// Runs each problem on its candidates: one of each pipeline, or `every` tile.
  void run(const std::vector<GemmProblem>& problems, bool every) {
    struct Trial {
      std::size_t problem;
      KernelConfig config;
    };
    std::vector<Trial> trials;
    std::vector<KernelConfig> configs;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const auto ranking = backend->find<Gemm>().value()->rank(problems[i]);
      ASSERT_TRUE(ranking) << ranking.error().text();
      std::set<Pipeline> seen;
      for (const Candidate& candidate : ranking->candidates)
        if (seen.insert(candidate.recipe.main().algorithm.pipeline).second || every) {
          trials.push_back({i, candidate.recipe.main()});
          configs.push_back(candidate.recipe.main());
        }
    }
    const std::vector<Status> built = backend->build(configs, 0, {});
    for (std::size_t i = 0; i < built.size(); ++i)
      ASSERT_TRUE(built[i]) << native_name(configs[i]) << ": " << built[i].error().text();
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const GemmProblem& p = problems[i];
      testing::RandomGemm call(p, i, p.unaligned ? 1 : 16);
      if (i % 2 == 1) call.add_numbers();
      const auto reference = GemmReference::make(call.tensors(), memory_type_of(p.type_d), 0);
      ASSERT_TRUE(reference) << reference.error().text();
      for (const Trial& trial : trials) {
        if (trial.problem != i) continue;
        const auto plan = backend->find<Gemm>().value()->plan(p, {trial.config}, "a test", BuildPolicy::never);
        ASSERT_TRUE(plan) << plan.error().text();
        for (int again = 0; again < 2; ++again)
          EXPECT_EQ(call.judge(**plan, *reference), "")
              << native_name(trial.config) << " m " << p.m << " n " << p.n << " k " << p.k << " batch " << p.batch
              << " depth " << p.group_size;
      }
    }
  }

  std::unique_ptr<Backend> backend;
};

TEST_F(CudaGemmExperts, EveryPipelineComputesRandomProblems) {
  std::vector<GemmProblem> problems;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    problems.push_back(testing::random_expert_problem(seed, true));
    problems.back().unaligned = seed % 5 == 4;
  }
  run(problems, false);
}

TEST_F(CudaGemmExperts, EveryTileComputesLargerProblems) {
  GemmProblem groups = gemm_problem(DataType::bf16, 700, 520, 264);
  groups.batch = 5;
  groups.grouping = GemmGrouping::contiguous;
  groups.epilogue = {EpilogueOp::bias};
  GemmProblem masked = groups;
  masked.m = 200;
  masked.grouping = GemmGrouping::masked;
  GemmProblem blocks = gemm_problem(DataType::fp8, 300, 520, 1040);
  blocks.group_size = 128;
  GemmProblem block_groups = blocks;
  block_groups.batch = 4;
  block_groups.grouping = GemmGrouping::contiguous;
  std::vector<GemmProblem> problems{groups, masked, blocks, block_groups};
  for (const DataType weights : {DataType::int8, DataType::int4})
    for (const std::int64_t m : {16, 150}) {
      GemmProblem p = gemm_problem(m == 16 ? DataType::bf16 : DataType::fp16, m, 1096, 1024);
      p.type_b = weights;
      p.group_size = weights == DataType::int8 ? 128 : 32;
      p.type_scale = weights == DataType::int8 ? DataType::fp32 : p.type_a;
      problems.push_back(p);
      p.zero_points = true;
      p.type_scale = p.type_a;
      problems.push_back(p);
    }
  run(problems, true);
}

TEST_F(CudaGemmExperts, EveryTileComputesGroupsOfFewRows) {
  std::vector<GemmProblem> problems;
  for (const GemmGrouping grouping : {GemmGrouping::contiguous, GemmGrouping::masked})
    for (const auto& [m, groups] : {std::pair{1, 3}, std::pair{40, 61}, std::pair{100, 9}}) {
      GemmProblem p = gemm_problem(DataType::bf16, grouping == GemmGrouping::masked ? std::min(m, 37) : m, 392, 200);
      p.batch = groups;
      p.grouping = grouping;
      problems.push_back(p);
      p.epilogue = {EpilogueOp::scale_m, EpilogueOp::swiglu, EpilogueOp::amax};
      problems.push_back(p);
      p = gemm_problem(DataType::fp8, p.m, 392, 528);
      p.batch = groups;
      p.grouping = grouping;
      problems.push_back(p);
      p.group_size = 128;
      problems.push_back(p);
    }
  run(problems, true);
}

}  // namespace
}  // namespace tilesmith
