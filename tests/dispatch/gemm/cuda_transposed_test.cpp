// Tiles that are computed as d^T = b^T x a^T, in all their variants, give the same sums as others on a CUDA device.
#include <gtest/gtest.h>

#include <vector>

#include "dispatch/gemm/cuda_plans.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "problem/line.hpp"
#include "runtime/cuda/device.hpp"
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
    // Every seventh, another seventh for each problem: they are many.
    std::vector<KernelConfig> some;
    for (std::size_t i = static_cast<std::size_t>(problem.m) % 7; i < configs.size(); i += 7)
      some.push_back(configs[i]);
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

}  // namespace
}  // namespace tilesmith
