// GEMM on a CUDA device: random problems of every type, order and epilogue on each pipeline, against float64.
#include <gtest/gtest.h>

#include <set>

#include "dispatch/backend.hpp"
#include "dispatch/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "kernel/memory_type.hpp"
#include "kernel/native_name.hpp"
#include "runtime/cuda_device.hpp"

namespace tilesmith {
namespace {

TEST(CudaGemm, EveryPipelineComputesRandomProblems) {
  if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
  constexpr std::uint64_t kProblems = 48;
  const auto backend = open_backend({DeviceKind::cuda, 0}, 1).value();
  struct Trial {
    std::size_t call;
    KernelConfig config;
  };
  std::vector<std::unique_ptr<testing::RandomGemm>> calls;
  std::vector<GemmProblem> problems;
  std::vector<Trial> trials;
  std::vector<KernelConfig> configs;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    GemmProblem problem = testing::random_gemm_problem(seed);
    problem.unaligned = seed % 3 == 2;
    const auto candidates = backend->gemm()->candidates(problem);
    if (!candidates) {
      EXPECT_EQ(candidates.error().code, ErrorCode::unsupported) << candidates.error().text();
      continue;
    }
    problems.push_back(problem);
    calls.push_back(std::make_unique<testing::RandomGemm>(problem, seed, problem.unaligned ? 1 : 16));
    std::set<Pipeline> seen;
    for (const Candidate& candidate : *candidates)
      if (seen.insert(candidate.config.algorithm.pipeline).second) {
        trials.push_back({calls.size() - 1, candidate.config});
        configs.push_back(candidate.config);
      }
  }
  EXPECT_GT(calls.size(), kProblems / 2);
  const std::vector<Status> built = backend->build(configs, 0, {});
  for (std::size_t i = 0; i < built.size(); ++i)
    ASSERT_TRUE(built[i]) << native_name(configs[i]) << ": " << built[i].error().text();
  for (const Trial& trial : trials) {
    const GemmProblem& problem = problems[trial.call];
    testing::RandomGemm& call = *calls[trial.call];
    const auto expectation = GemmExpectation::make(call.tensors(), memory_type_of(problem.type_d), 1);
    ASSERT_TRUE(expectation) << expectation.error().text();
    const auto plan = backend->gemm()->plan(problem, trial.config, "a test", BuildPolicy::never);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_EQ(call.judge(**plan, *expectation), "") << native_name(trial.config) << " m " << problem.m << " n "
                                                    << problem.n << " k " << problem.k << " batch " << problem.batch;
  }
}

}  // namespace
}  // namespace tilesmith
