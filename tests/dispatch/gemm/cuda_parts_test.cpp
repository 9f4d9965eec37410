// Tiles that several blocks share, on a CUDA device: parts of k in memory, in any order, by clusters and by stream-K,
// from any number of streams, in graphs and in the caller's workspace.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

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

TEST_F(CudaGemmPlans, PartsAreAddedInAnyOrderWhereThatIsAskedFor) {
  for (const GemmProblem& problem : {bf16(128, 256, 16384), bf16(100, 1001, 8192)}) {
    KernelConfig config;
    const auto ranking = backend->find<Gemm>().value()->rank(problem);
    ASSERT_TRUE(ranking) << ranking.error().text();
    for (const Candidate& candidate : ranking->candidates)
      if (candidate.recipe.main().algorithm.split_k_atomic) config = candidate.recipe.main();
    ASSERT_TRUE(config.algorithm.split_k_atomic);
    const auto added = plan(problem, config);
    ASSERT_NE(added, nullptr);
    KernelConfig apart = config;
    apart.algorithm.split_k_atomic = false;
    const auto kept = plan(problem, apart);
    ASSERT_NE(kept, nullptr);
    const auto call = DeviceGemm::create(*context, problem, 40, GemmValues::whole).value();
    const CudaBuffer d = call.make_d(stream.handle()).value();
    // In turn, because they share the stream's memory: each must find what it needs zero.
    for (int repeat = 0; repeat < 3; ++repeat)
      for (const GemmPlan* one : {added.get(), kept.get()}) {
        ASSERT_TRUE(fill_bytes(*context, d.data(), 0xff, d.bytes(), stream.handle()));
        ASSERT_EQ(words(call.queue(*one, d, {.stream = stream.handle()})), "");
        EXPECT_EQ(call.judge(call.fetch(d, stream.handle()).value()), "") << one->kernel_name();
      }
    const CudaBuffer memory = CudaBuffer::allocate(*context, added->workspace_bytes()).value();
    ASSERT_TRUE(fill_bytes(*context, memory.data(), 0xff, memory.bytes(), stream.handle()));
    ASSERT_EQ(words(call.queue(*added, d, {.stream = stream.handle(), .workspace = memory.data()})), "");
    EXPECT_EQ(call.judge(call.fetch(d, stream.handle()).value()), "") << "in the caller's workspace";
    EXPECT_LT(added->workspace_bytes(), kept->workspace_bytes());
  }
}

TEST_F(CudaGemmPlans, OnlyTolerantDispatchersAddPartsInAnyOrder) {
  const GemmProblem problem = bf16(512, 512, 16384);
  Dispatcher bitwise({.device = {DeviceKind::cuda, 0}});
  Dispatcher tolerant({.device = {DeviceKind::cuda, 0}, .determinism = Determinism::tolerant});
  const auto usual = bitwise.plan(problem), other = tolerant.plan(problem);
  ASSERT_TRUE(usual && other);
  EXPECT_EQ((*usual)->kernel_name().find("_atomic"), std::string_view::npos);
  EXPECT_NE((*other)->kernel_name().find("_atomic"), std::string_view::npos);
  Dispatcher named({.device = {DeviceKind::cuda, 0}, .kernel = std::string((*other)->kernel_name())});
  const auto refused = named.plan(problem);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, "determinism tolerant");
}

TEST_F(CudaGemmPlans, OnePlanSplitsInTwoStreamsAtOnce) {
  constexpr int kLaunches = 24;
  for (const auto& [problem, pipeline] :
       {std::pair{bf16(128, 512, 8192), Pipeline::warp_specialized},
        std::pair{bf16(16, 256, 8192), Pipeline::skinny_tma}, std::pair{bf16(96, 512, 4096), Pipeline::mma_sm80}}) {
    const KernelConfig config = split_config(problem, pipeline);
    SCOPED_TRACE(native_name(config));
    const auto made = plan(problem, config);
    ASSERT_NE(made, nullptr);
    EXPECT_GT(made->workspace_bytes(), 0U);
    const std::array streams{stream.handle(), other_stream.handle()};
    std::vector<DeviceGemm> calls;
    for (std::uint64_t i = 0; i < 2; ++i)
      calls.push_back(DeviceGemm::create(*context, problem, 10 + i, GemmValues::whole).value());
    std::vector<CudaBuffer> results;
    for (int i = 0; i < kLaunches; ++i) results.push_back(calls[0].make_d(streams[i % 2]).value());
    for (const cu::Stream one : streams) ASSERT_TRUE(synchronize(*context, one));
    for (std::size_t i = 0; i < kLaunches; ++i)
      ASSERT_EQ(words(calls[i % 2].queue(*made, results[i], {.stream = streams[i % 2]})), "");
    for (std::size_t i = 0; i < kLaunches; ++i) {
      const auto d = calls[i % 2].fetch(results[i], streams[i % 2]);
      ASSERT_TRUE(d) << d.error().text();
      EXPECT_EQ(calls[i % 2].judge(*d), "") << "launch " << i;
    }
  }
}

TEST_F(CudaGemmPlans, SplitProductsAreCapturedIntoGraphs) {
  const GemmProblem problem = bf16(128, 512, 8192);
  const auto made = plan(problem, split_config(problem, Pipeline::warp_specialized));
  ASSERT_NE(made, nullptr);
  std::vector<DeviceGemm> calls;
  std::vector<CudaBuffer> results;
  for (std::uint64_t i = 0; i < 3; ++i) {
    calls.push_back(DeviceGemm::create(*context, problem, 20 + i, GemmValues::whole).value());
    results.push_back(calls[0].make_d(stream.handle()).value());
  }
  ASSERT_TRUE(stream.synchronize());
  const auto graph_of = [&](std::size_t from, std::size_t to) {
    auto graph = CudaGraph::capture(*context, stream.handle(), [&]() -> Status {
      for (std::size_t i = from; i < to; ++i) TS_TRY(calls[i].queue(*made, results[i], {.stream = stream.handle()}));
      return {};
    });
    EXPECT_TRUE(graph) << graph.error().text();
    return graph ? std::move(*graph) : CudaGraph();
  };
  const CudaGraph two = graph_of(0, 2), one = graph_of(2, 3);
  ASSERT_FALSE(HasFailure());
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t i = 0; i < 3; ++i)
      ASSERT_TRUE(fill_bytes(*context, results[i].data(), 0xff, results[i].bytes(), stream.handle()));
    ASSERT_TRUE(stream.synchronize());
    ASSERT_EQ(words(two.launch(stream.handle())), "");
    ASSERT_EQ(words(one.launch(other_stream.handle())), "");  // beside it
    ASSERT_TRUE(stream.synchronize());
    ASSERT_TRUE(other_stream.synchronize());
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(calls[i].judge(calls[i].fetch(results[i], stream.handle()).value()), "") << "launch " << i;
  }
}

TEST_F(CudaGemmPlans, StreamKSharesWhatFillsNoRound) {
  std::vector<GemmProblem> problems{bf16(3840, 2560, 1000), bf16(1920, 2568, 520), bf16(130, 296, 4096),
                                    gemm_problem(DataType::fp8, 700, 1600, 2048),
                                    gemm_problem(DataType::int8, 2900, 1040, 912)};
  problems[2].batch = 3;
  problems.push_back(bf16(1920, 2568, 264));
  problems.back().k2 = 520;
  for (const GemmProblem& problem : problems) {
    const auto ranking = backend->find<Gemm>().value()->rank(problem);
    ASSERT_TRUE(ranking) << ranking.error().text();
    std::vector<KernelConfig> configs;
    const KernelConfig* alone = nullptr;
    for (const Candidate& candidate : ranking->candidates) {
      const Algorithm& algorithm = candidate.recipe.main().algorithm;
      if (algorithm.stream_k) configs.push_back(candidate.recipe.main());
      if (alone == nullptr && !algorithm.stream_k && !algorithm.split_k) alone = &candidate.recipe.main();
    }
    ASSERT_FALSE(configs.empty());
    ASSERT_NE(alone, nullptr);
    configs.push_back(*alone);
    ASSERT_NO_FATAL_FAILURE(build(configs));
    configs.pop_back();
    const auto whole = DeviceGemm::create(*context, problem, 50, GemmValues::whole).value();
    const auto normal = DeviceGemm::create(*context, problem, 51, GemmValues::normal).value();
    const CudaBuffer d = whole.make_d(stream.handle()).value(), other = whole.make_d(other_stream.handle()).value();
    const auto reference = plan(problem, *alone);
    ASSERT_NE(reference, nullptr);
    ASSERT_EQ(words(whole.queue(*reference, d, {.stream = stream.handle()})), "");
    const std::vector<std::byte> expected = whole.fetch(d, stream.handle()).value();
    for (const KernelConfig& config : configs) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      ASSERT_TRUE(fill_bytes(*context, d.data(), 0xff, d.bytes(), stream.handle()));
      ASSERT_EQ(words(whole.queue(*made, d, {.stream = stream.handle()})), "");
      EXPECT_TRUE(whole.fetch(d, stream.handle()).value() == expected);
      std::vector<std::byte> first;
      for (int repeat = 0; repeat < 4; ++repeat) {
        ASSERT_EQ(words(normal.queue(*made, d, {.stream = stream.handle()})), "");
        ASSERT_EQ(words(normal.queue(*made, other, {.stream = other_stream.handle()})), "");
        const auto one = normal.fetch(d, stream.handle()).value(),
                   two = normal.fetch(other, other_stream.handle()).value();
        if (repeat == 0) first = one;
        EXPECT_TRUE(one == first) << "repeat " << repeat << " has other bits";
        EXPECT_TRUE(two == first) << "repeat " << repeat << " in another stream has other bits";
      }
    }
  }
}

/// Each tile that a cluster of so many blocks may share by k, of those that are ranked.
std::vector<KernelConfig> shared_by_clusters(const Backend& backend, const GemmProblem& problem) {
  std::vector<KernelConfig> configs;
  const Ranking ranking = backend.find<Gemm>().value()->rank(problem).value();
  for (const Candidate& candidate : ranking.candidates) {
    KernelConfig config = candidate.recipe.main();
    if (config.algorithm.pipeline != Pipeline::warp_specialized) continue;
    for (const int blocks : {2, 4, 8}) {
      config.algorithm.stages = 3;
      config.algorithm.cluster_k = static_cast<std::uint8_t>(blocks);
      if (backend.find<Gemm>().value()->check(config, problem) && std::ranges::find(configs, config) == configs.end())
        configs.push_back(config);
    }
  }
  return configs;
}

TEST_F(CudaGemmPlans, BlocksOfAClusterShareTilesByK) {
  if (const std::string arch = cuda_devices().value().front().arch(); arch != "sm_90a")
    GTEST_SKIP() << "clusters are those of sm_90a; this device is " << arch;
  std::vector<GemmProblem> problems{bf16(117, 1536, 1032),
                                    bf16(283, 303, 520),
                                    bf16(17, 2568, 4096),
                                    gemm_problem(DataType::fp8, 70, 592, 2064),
                                    gemm_problem(DataType::int8, 290, 1040, 1040),
                                    gemm_problem(DataType::tf32, 100, 520, 264)};
  problems.push_back(bf16(304, 520, 1160));
  problems.back().order_a = MatrixOrder::column;
  problems.back().order_b = MatrixOrder::row;
  problems.push_back(bf16(118, 312, 264));  // parts that begin in the second product, a batch
  problems.back().k2 = 536;
  problems.back().batch = 2;
  problems.push_back(bf16(120, 584, 1032));  // a residual that travels in the ring
  problems.back().beta = true;
  for (const GemmProblem& problem : problems) {
    SCOPED_TRACE(to_line(problem));
    const std::vector<KernelConfig> all = shared_by_clusters(*backend, problem);
    ASSERT_FALSE(all.empty());
    const std::vector<KernelConfig> some = every(11, all, problem);
    ASSERT_FALSE(some.empty());
    ASSERT_NO_FATAL_FAILURE(build(some));
    const auto whole = DeviceGemm::create(*context, problem, 54, GemmValues::whole).value();
    const auto normal = DeviceGemm::create(*context, problem, 55, GemmValues::normal).value();
    const CudaBuffer d = whole.make_d(stream.handle()).value();
    for (const KernelConfig& config : some) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      EXPECT_EQ(made->workspace_bytes() == 0, !config.algorithm.split_k);
      for (const DeviceGemm* call : {&whole, &normal}) {
        std::vector<std::byte> first;
        for (int repeat = 0; repeat < 3; ++repeat) {
          ASSERT_TRUE(fill_bytes(*context, d.data(), 0xff, d.bytes(), stream.handle()));
          ASSERT_EQ(words(call->queue(*made, d, {.stream = stream.handle()})), "");
          const std::vector<std::byte> one = call->fetch(d, stream.handle()).value();
          if (repeat == 0) first = one;
          EXPECT_TRUE(one == first) << "repeat " << repeat << " has other bits";
        }
        if (call == &whole) {
          EXPECT_EQ(whole.judge(first), "");
        }
      }
    }
  }
}

TEST_F(CudaGemmPlans, TheCallersWorkspaceMayHoldAnything) {
  GemmProblem plain = bf16(128, 512, 8192), padded = bf16(129, 520, 8191);
  padded.unaligned = padded.aligned_d = true;
  for (const GemmProblem& problem : {plain, padded}) {
    SCOPED_TRACE(problem.k);
    const auto made = plan(problem, split_config(problem, Pipeline::warp_specialized));
    ASSERT_NE(made, nullptr);
    const auto call = DeviceGemm::create(*context, problem, 30, GemmValues::whole).value();
    const CudaBuffer d = call.make_d(stream.handle()).value();
    constexpr std::size_t kAround = 4096;
    const CudaBuffer memory = CudaBuffer::allocate(*context, made->workspace_bytes() + 2 * kAround).value();
    ASSERT_TRUE(fill_bytes(*context, memory.data(), 0xff, memory.bytes(), stream.handle()));
    auto* const workspace = static_cast<std::byte*>(memory.data()) + kAround;
    for (int repeat = 0; repeat < 2; ++repeat) {
      ASSERT_EQ(words(call.queue(*made, d, {.stream = stream.handle(), .workspace = workspace})), "");
      EXPECT_EQ(call.judge(call.fetch(d, stream.handle()).value()), "");
    }
    std::vector<std::byte> around(kAround);
    for (std::byte* const zone : {workspace - kAround, workspace + made->workspace_bytes()}) {
      ASSERT_TRUE(copy_to_host(*context, around.data(), zone, kAround, stream.handle()));
      ASSERT_TRUE(stream.synchronize());
      EXPECT_TRUE(std::ranges::all_of(around, [](std::byte b) { return b == std::byte{0xff}; }));
    }
    const Status refused = call.queue(*made, d, {.stream = stream.handle(), .workspace = workspace + 4});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace tilesmith
