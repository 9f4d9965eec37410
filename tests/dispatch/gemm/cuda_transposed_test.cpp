// Tiles that are computed as d^T = b^T x a^T, in all their variants, give the same sums as others on a CUDA device.
#include <gtest/gtest.h>

#include <vector>

#include "dispatch/gemm/cuda_plans.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "problem/line.hpp"
#include "runtime/cuda/device.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::bf16;
using testing::CudaGemmPlans;
using testing::DeviceGemm;
using testing::GemmValues;
using testing::words;

/// A tile, and the same with what else the template carries: parts of k, stream-K, turns, clusters.
std::vector<KernelConfig> variants_of(KernelConfig config) {
  std::vector<KernelConfig> variants{config};
  config.algorithm.stages = 3;
  const auto add = [&](auto&& change) { change(variants.emplace_back(config).algorithm); };
  add([](Algorithm& a) { a.split_k = true; });
  add([](Algorithm& a) { a.stream_k = true; });
  add([](Algorithm& a) {
    a.ping_pong = true;
    a.wave[0] = 2;
  });
  add([](Algorithm& a) { a.cluster = {2, 1}; });
  add([](Algorithm& a) { a.cluster = {1, 2}; });
  return variants;
}

TEST_F(CudaGemmPlans, TransposedTilesGiveTheSameSums) {
  if (const std::string arch = cuda_devices().value().front().arch(); arch != "sm_90a")
    GTEST_SKIP() << "transposed tiles are wgmma's, of sm_90a; this device is " << arch;
  std::vector<GemmProblem> problems{bf16(283, 304, 328),
                                    bf16(283, 303, 328),
                                    bf16(1, 8, 8),
                                    gemm_problem(DataType::fp8, 401, 592, 528),
                                    gemm_problem(DataType::int8, 290, 1040, 912),
                                    gemm_problem(DataType::tf32, 300, 520, 200)};
  problems.push_back(bf16(304, 520, 264));
  problems.back().order_a = MatrixOrder::column;
  problems.back().order_b = MatrixOrder::row;
  problems.push_back(bf16(283, 312, 264));
  problems.back().k2 = 136;
  problems.back().batch = 2;
  for (const GemmProblem& problem : problems) {
    SCOPED_TRACE(to_line(problem));
    const auto ranking = backend->find<Gemm>().value()->rank(problem);
    ASSERT_TRUE(ranking) << ranking.error().text();
    std::vector<KernelConfig> configs;
    const KernelConfig* other = nullptr;
    for (const Candidate& candidate : ranking->candidates) {
      const KernelConfig& config = candidate.recipe.main();
      if (config.algorithm.transpose_c) {
        for (const KernelConfig& variant : variants_of(config))
          if (backend->find<Gemm>().value()->check(variant, problem)) configs.push_back(variant);
      } else if (other == nullptr && config.algorithm.pipeline == Pipeline::mma_sm80) {
        other = &config;
      }
    }
    ASSERT_NE(other, nullptr);
    ASSERT_FALSE(configs.empty());
    std::vector<KernelConfig> some = every(7, configs, problem);
    some.push_back(*other);
    ASSERT_NO_FATAL_FAILURE(build(some));
    some.pop_back();
    const auto whole = DeviceGemm::create(*context, problem, 52, GemmValues::whole).value();
    const CudaBuffer d = whole.make_d(stream.handle()).value();
    const auto reference = plan(problem, *other);
    ASSERT_NE(reference, nullptr);
    ASSERT_EQ(words(whole.queue(*reference, d, {.stream = stream.handle()})), "");
    const std::vector<std::byte> expected = whole.fetch(d, stream.handle()).value();
    EXPECT_EQ(whole.judge(expected), "");
    for (const KernelConfig& config : some) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      ASSERT_TRUE(fill_bytes(*context, d.data(), 0xff, d.bytes(), stream.handle()));
      ASSERT_EQ(words(whole.queue(*made, d, {.stream = stream.handle()})), "");
      EXPECT_TRUE(whole.fetch(d, stream.handle()).value() == expected);
    }
  }
}

/// Vectors along m and along n and what needs none, applied to sums before they are turned: odd rows, ends of tiles in
/// both directions, entries of a batch, 16- and 32-bit biases.
TEST_F(CudaGemmPlans, TransposedTilesApplyVectorsToTheirSums) {
  if (const std::string arch = cuda_devices().value().front().arch(); arch != "sm_90a")
    GTEST_SKIP() << "transposed tiles are wgmma's, of sm_90a; this device is " << arch;
  using Op = EpilogueOp;
  const std::vector<GemmEpilogue> epilogues = {{Op::bias, Op::gelu},
                                               {Op::scale_m, Op::scale_n, Op::bias},
                                               {Op::bias_m, Op::silu, Op::amax},
                                               {Op::scale_n, Op::clamp, Op::bias_m, Op::bias, Op::amax}};
  struct Trial {
    std::size_t call;
    KernelConfig config;
  };
  std::vector<GemmProblem> problems;
  std::vector<Trial> trials;
  std::vector<KernelConfig> configs;
  std::size_t turn = 0;
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp8, DataType::int8})
    for (const GemmEpilogue& epilogue : epilogues) {
      const auto more = static_cast<std::int64_t>(turn);
      GemmProblem p = gemm_problem(type, 283 - 2 * more, 304 + 8 * (more % 5), 336 + 256 * (more % 2),
                                   turn % 3 == 0 ? DataType::fp16 : DataType::bf16);
      p.epilogue = epilogue;
      p.batch = turn % 3 == 1 ? 2 : 1;
      if (turn % 2 == 0) p.type_bias = DataType::fp32;
      const auto ranking = backend->find<Gemm>().value()->rank(p);
      ASSERT_TRUE(ranking) << ranking.error().text();
      std::vector<KernelConfig> found;
      for (const Candidate& candidate : ranking->candidates)
        for (const KernelConfig& variant : variants_of(candidate.recipe.main()))
          if (cuda_gemm_resources(variant).epilogue_on_sums && backend->find<Gemm>().value()->check(variant, p))
            found.push_back(variant);
      ASSERT_FALSE(found.empty()) << to_line(p);
      for (std::size_t i = turn % 41; i < found.size(); i += 41) {  // other ones for each problem: they are many
        trials.push_back({problems.size(), found[i]});
        configs.push_back(found[i]);
      }
      problems.push_back(p);
      ++turn;
    }
  ASSERT_GT(configs.size(), problems.size());
  ASSERT_NO_FATAL_FAILURE(build(configs));
  for (std::size_t i = 0; i < problems.size(); ++i) {
    testing::RandomGemm call(problems[i], i, 16);
    call.add_numbers();
    const auto reference = GemmReference::make(call.tensors(), memory_type_of(problems[i].type_d), 1);
    ASSERT_TRUE(reference) << reference.error().text();
    for (const Trial& trial : trials) {
      if (trial.call != i) continue;
      const auto made = plan(problems[i], trial.config);
      ASSERT_NE(made, nullptr);
      EXPECT_EQ(call.judge(*made, *reference), "") << native_name(trial.config) << ": " << to_line(problems[i]);
    }
  }
}

}  // namespace
}  // namespace tilesmith
