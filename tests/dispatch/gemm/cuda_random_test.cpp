// Random problems of every type, order and epilogue through each pipeline on a CUDA device, compared with float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dispatch/gemm/cuda_plans.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::bf16;
using testing::CudaGemmPlans;

class CudaRandomGemms : public CudaGemmPlans {
 protected:
  [[nodiscard]] std::vector<GemmProblem> draw(std::uint64_t count, GemmProblem (*one)(std::uint64_t)) const;
  void compute(const std::vector<GemmProblem>& problems) const;
};

/// As many random problems, every third unaligned, every second with a B that nothing before writes; none that no
/// kernel computes.
std::vector<GemmProblem> CudaRandomGemms::draw(std::uint64_t count, GemmProblem (*one)(std::uint64_t)) const {
  std::vector<GemmProblem> problems;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    GemmProblem problem = one(seed);
    problem.unaligned = seed % 3 == 2;
    problem.prefetch_weights = seed % 2 == 1;
    if (const auto ranking = backend->find<Gemm>().value()->rank(problem))
      problems.push_back(problem);
    else
      EXPECT_EQ(ranking.error().code, ErrorCode::unsupported) << ranking.error().text();
  }
  EXPECT_GT(problems.size(), count / 2);
  return problems;
}

/// Random data through the first instance of every pipeline, compared with float64.
void CudaRandomGemms::compute(const std::vector<GemmProblem>& problems) const {
  struct Trial {
    std::size_t call;
    KernelConfig config;
  };
  std::vector<std::unique_ptr<testing::RandomGemm>> calls;
  std::vector<Trial> trials;
  std::vector<KernelConfig> configs;
  for (std::uint64_t seed = 0; seed < problems.size(); ++seed) {
    const GemmProblem& problem = problems[seed];
    const auto ranking = backend->find<Gemm>().value()->rank(problem);
    ASSERT_TRUE(ranking) << ranking.error().text();
    calls.push_back(std::make_unique<testing::RandomGemm>(problem, seed, problem.unaligned ? 1 : 16));
    if (seed % 2 == 0) calls.back()->add_numbers();
    std::set<Pipeline> seen;
    for (const Candidate& candidate : ranking->candidates)
      if (seen.insert(candidate.recipe.main().algorithm.pipeline).second) {
        KernelConfig config = candidate.recipe.main();
        // Every other one in parts, of memory, of a cluster, or of clusters.
        const std::uint64_t turn = seed + seen.size();
        config.algorithm.split_k = turn % 4 == 0 || turn % 8 == 6;
        if (turn % 4 == 2) {
          config.algorithm.stages = std::min<std::uint8_t>(config.algorithm.stages, 3);  // room for what is received
          config.algorithm.split_k_atomic = config.algorithm.stream_k = config.algorithm.ping_pong = false;
          config.algorithm.cluster = {1, 1};
          config.algorithm.cluster_k = static_cast<std::uint8_t>(2 << seed % 3);
        }
        if (!backend->find<Gemm>().value()->check(config, problem)) config = candidate.recipe.main();
        trials.push_back({calls.size() - 1, config});
        configs.push_back(config);
      }
  }
  ASSERT_NO_FATAL_FAILURE(build(configs));
  for (const Trial& trial : trials) {
    const GemmProblem& problem = problems[trial.call];
    testing::RandomGemm& call = *calls[trial.call];
    const auto reference = GemmReference::make(call.tensors(), memory_type_of(problem.type_d), 1);
    ASSERT_TRUE(reference) << reference.error().text();
    const auto made = plan(problem, trial.config);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(call.judge(*made, *reference), "")
        << native_name(trial.config) << " m " << problem.m << " n " << problem.n << " k " << problem.k << "+"
        << problem.k2 << " batch " << problem.batch;
  }
}

TEST_F(CudaRandomGemms, EveryPipelineComputesRandomProblems) {
  compute(draw(48, testing::random_gemm_problem));
}

TEST_F(CudaRandomGemms, EveryPipelineComputesTwoProductsInOneSum) {
  compute(draw(32, testing::random_second_problem));
}

TEST_F(CudaRandomGemms, OperationsFollowAGate) {
  using Op = EpilogueOp;
  const std::vector<GemmEpilogue> epilogues = {{Op::bias, Op::reglu, Op::scale_n, Op::bias, Op::clamp, Op::amax},
                                               {Op::swiglu, Op::multiply, Op::bias_m, Op::relu},
                                               {Op::multiply, Op::geglu, Op::scale_m, Op::add, Op::silu}};
  std::vector<GemmProblem> problems;
  for (const GemmEpilogue& epilogue : epilogues)
    for (const std::int64_t m : {std::int64_t{11}, std::int64_t{200}})
      for (const bool unaligned : {false, true})
        for (const DataType result : {DataType::bf16, DataType::fp32}) {
          GemmProblem p = gemm_problem(DataType::bf16, m, unaligned ? 250 : 272, 200, result);
          p.batch = 2;
          p.epilogue = epilogue;
          p.unaligned = unaligned;
          problems.push_back(p);
        }
  compute(problems);
}

TEST_F(CudaRandomGemms, TensorsComeWithTheirTiles) {
  using Op = EpilogueOp;
  std::vector<GemmProblem> problems;
  for (const GemmGrouping grouping : {GemmGrouping::none, GemmGrouping::contiguous, GemmGrouping::masked})
    for (const std::int64_t n : {std::int64_t{72}, std::int64_t{264}, std::int64_t{520}}) {
      GemmProblem p = bf16(400, n, 328);
      p.batch = 3;
      p.grouping = grouping;
      p.epilogue = {Op::add};
      problems.push_back(p);
      p.epilogue = {Op::bias, Op::multiply, Op::gelu, Op::multiply};
      problems.push_back(p);
      p.epilogue = {Op::bias, Op::gelu};
      p.beta = true;
      problems.push_back(p);
    }
  compute(problems);
}

}  // namespace
}  // namespace tilesmith
