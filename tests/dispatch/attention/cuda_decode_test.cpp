// The CUDA kernels for few queries: every tile, cut into any number of pieces, against the float64 reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "dispatch/attention/on_device.hpp"
#include "dispatch/attention/random_problem.hpp"
#include "dispatch/cuda_backend.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr Device kDevice{DeviceKind::cuda, 0};

class CudaDecodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
    backend_ = open_backend(kDevice, 1).value();
  }

  /// Every decode kernel that is a candidate for the problem.
  std::vector<KernelConfig> kernels(const AttentionProblem& problem) {
    std::vector<KernelConfig> configs;
    const Ranking ranking = backend_->find<AttentionFwd>().value()->rank(problem).value();
    for (const Candidate& one : ranking.candidates)
      if (is_decode(one.recipe.main().algorithm.pipeline)) configs.push_back(one.recipe.main());
    return configs;
  }

  std::unique_ptr<AttentionPlan> plan(const AttentionProblem& problem, const KernelConfig& config) {
    return backend_->find<AttentionFwd>().value()->plan(problem, {config}, "a test", BuildPolicy::allowed).value();
  }

  std::unique_ptr<Backend> backend_;
};

/// Few queries or a few tiles of them, many keys, some pieces.
AttentionProblem few_queries(AttentionProblem p, std::uint64_t seed) {
  p = testing::random_shape(p, seed);
  p.heads_q = p.heads_kv * std::array{1, 2, 3, 5, 8, 16}[seed % 6];
  p.seqlen_q = std::min<std::int64_t>(64 / (p.heads_q / p.heads_kv), std::array{1, 1, 2, 4, 7, 64}[seed / 6 % 6]);
  const bool may_have_tiles = p.mode == SequenceMode::batch && p.page_size == 0 && p.bias != BiasKind::elementwise;
  if (may_have_tiles && seed % 3 == 0) p.seqlen_q += 64 * std::array{1, 3, 7}[seed / 3 % 3] / (p.heads_q / p.heads_kv);
  p.seqlen_k = std::array{0, 1, 63, 64, 300, 1000, 2500}[seed % 7];
  p.splits = std::array{0, 1, 2, 3, 7, 100}[seed / 2 % 6];
  if (p.window_left > 0) p.window_left = std::min<std::int64_t>(p.window_left * 20, INT64_MAX / 2);
  return p;
}

using Row = std::tuple<DataType, std::int64_t, std::int64_t, std::string>;  // a literal would print its address

class CudaDecodeProperty : public CudaDecodeTest, public ::testing::WithParamInterface<Row> {};

TEST_P(CudaDecodeProperty, EveryTileAgreesWithTheReference) {
  const auto& [type, qk, v, words] = GetParam();
  const AttentionProblem wanted = testing::traits(type, qk, v, words);
  const std::uint64_t first_seed = std::hash<std::string>{}(fmt::format("{} {} {} {}", int(type), qk, v, words)) % 1000;
  std::vector<std::unique_ptr<testing::RandomCall>> calls;
  std::vector<std::pair<std::size_t, KernelConfig>> trials;  // a call, and an instance to run it on
  std::vector<KernelConfig> configs;
  for (std::uint64_t shape = 0; shape < 24; ++shape) {
    const std::uint64_t seed = first_seed * 1000 + shape;
    calls.push_back(std::make_unique<testing::RandomCall>(few_queries(wanted, seed), seed, 16));
    const std::vector<KernelConfig> tiles = kernels(calls.back()->problem());
    EXPECT_FALSE(tiles.empty()) << testing::describe(calls.back()->problem());
    for (const KernelConfig& config : tiles) {
      trials.emplace_back(calls.size() - 1, config);
      configs.push_back(config);
    }
  }
  for (const Status& built : backend_->build(configs, 0, {}))
    ASSERT_TRUE(built) << built.error().text();  // side by side
  for (const auto& [at, config] : trials) {
    testing::RandomCall& call = *calls[at];
    const Status ran = call.run(*plan(call.problem(), config));
    const std::string what =
        fmt::format("{}\n{} splits {}", native_name(config), testing::describe(call.problem()), call.problem().splits);
    ASSERT_TRUE(ran) << ran.error().text() << "\n" << what;
    EXPECT_EQ(call.judge(), "") << what;
  }
}

const Row kRows[] = {
    {DataType::bf16, 64, 64, "lse"},
    {DataType::bf16, 128, 128, ""},
    {DataType::bf16, 128, 128, "mask lse"},
    {DataType::fp16, 128, 128, "mask cap sink lse"},
    {DataType::bf16, 256, 256, "mask lse"},
    {DataType::fp16, 256, 256, "group mask cap"},
    {DataType::bf16, 192, 128, "mask sink lse"},
    {DataType::bf16, 72, 40, "group mask odd bias sink lse"},
    {DataType::fp16, 8, 16, "mask alibi lse"},
    {DataType::bf16, 128, 128, "group lse"},
    {DataType::bf16, 128, 128, "bias alibi lse"},
    {DataType::fp16, 96, 96, "mask bias lse"},
    {DataType::bf16, 128, 128, "paged mask lse"},
    {DataType::fp16, 64, 64, "paged mask sink lse"},
    {DataType::bf16, 256, 256, "paged mask cap lse"},
    {DataType::bf16, 128, 128, "paged group mask lse"},
    {DataType::bf16, 72, 40, "paged group bias mask"},
    {DataType::bf16, 128, 128, "paged cache8 mask lse"},
    {DataType::bf16, 128, 128, "paged cachei8 pagescale mask lse"},
    {DataType::fp16, 64, 64, "group paged cache8 pagescale mask cap sink lse"},
    {DataType::fp16, 80, 48, "cachei8 mask alibi lse"},
    {DataType::bf16, 256, 256, "group paged cachei8 mask bias lse"},
    {DataType::bf16, 192, 128, "paged cache8 pagescale sink lse"},
    {DataType::bf16, 576, 512, "paged latent mask lse"},
    {DataType::fp16, 576, 512, "group paged latent mask sink lse"},
    {DataType::bf16, 320, 256, "latent mask lse"},
    {DataType::bf16, 576, 512, "group latent mask cap lse"},
    {DataType::bf16, 576, 512, "paged latent cache8 mask lse"},
    {DataType::fp16, 576, 512, "group paged latent cachei8 mask sink lse"},
    {DataType::bf16, 400, 256, "latent cachei8 mask cap lse"},
    {DataType::bf16, 576, 512, "paged latent cache8 pagescale mask lse"},
    {DataType::bf16, 320, 256, "latent cachei8 mask lse"},
    {DataType::bf16, 576, 512, "paged latent cache8 mask bias lse"},
    {DataType::fp16, 576, 512, "latent cachei8 mask alibi sink lse"},
    {DataType::bf16, 448, 384, "paged latent cache8 mask lse"},
};
INSTANTIATE_TEST_SUITE_P(Signatures, CudaDecodeProperty, ::testing::ValuesIn(kRows),
                         [](const auto& drawn) { return fmt::format("{}", drawn.index); });

AttentionProblem decode_problem() {
  return {.data_type = DataType::bf16,
          .batch = 3,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = 2,
          .seqlen_k = 2000,
          .mask = MaskKind::bottom_right,
          .lse = true,
          .splits = 8};
}

// The last piece to arrive joins all of them, whichever it is.
TEST_F(CudaDecodeTest, RepeatsGiveTheSameBits) {
  testing::RandomCall call(decode_problem(), 7, 8);
  for (const KernelConfig& config : kernels(decode_problem())) {
    const auto made = plan(decode_problem(), config);
    ASSERT_TRUE(call.run(*made));
    const std::vector<float> first = call.output();
    EXPECT_EQ(call.judge(), "") << native_name(config);
    for (int repeat = 0; repeat < 150; ++repeat) {  // each in a stream of its own, and a backend keeps 1024
      ASSERT_TRUE(call.run(*made));
      ASSERT_EQ(call.output(), first) << native_name(config) << ", repeat " << repeat;
    }
  }
}

// The blocks of a cluster join through each other's shared memory, with nothing in memory but the result.
TEST_F(CudaDecodeTest, ClustersGiveTheSameBits) {
  AttentionProblem problem = decode_problem();
  problem.batch = 1, problem.heads_q = 32, problem.heads_kv = 8, problem.seqlen_k = 1000, problem.splits = 0;
  for (const std::int64_t page : {0, 16}) {
    problem.page_size = page;
    testing::RandomCall call(problem, 13, 8);
    const KernelConfig config = kernels(problem).front();
    const auto made = plan(problem, config);
    EXPECT_EQ(made->workspace_bytes(), 0u) << native_name(config);
    ASSERT_TRUE(call.run(*made));
    const std::vector<float> first = call.output();
    EXPECT_EQ(call.judge(), "") << native_name(config);
    for (int repeat = 0; repeat < 100; ++repeat) {
      ASSERT_TRUE(call.run(*made));
      ASSERT_EQ(call.output(), first) << native_name(config) << ", repeat " << repeat;
    }
  }
}

/// The root mean square of the difference, over that of `b`.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double differences = 0, squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences += (a[i] - b[i]) * (a[i] - b[i]);
    squares += b[i] * b[i];
  }
  return std::sqrt(differences / squares);
}

struct LatentRows {
  std::int64_t batch, queries, keys, splits;
  KvElements cache = KvElements::as_queries;
};
class CudaDecodeLatentTest : public CudaDecodeTest, public ::testing::WithParamInterface<LatentRows> {};

TEST_P(CudaDecodeLatentTest, RepeatsGiveTheSameBits) {
  const LatentRows c = GetParam();
  const bool small = c.batch * c.keys < 10'000;
  AttentionProblem problem = decode_problem();
  problem.batch = c.batch, problem.seqlen_q = c.queries, problem.seqlen_k = c.keys, problem.splits = c.splits;
  problem.heads_q = 100, problem.heads_kv = 1, problem.head_dim_qk = 576;
  problem.head_dim_v = 512, problem.latent = true, problem.page_size = 16;
  problem.cache = c.cache;
  testing::RandomCall call(problem, 9, 8);
  std::vector<KernelConfig> tried = kernels(problem);
  if (!small) tried.resize(1);
  for (const KernelConfig& config : tried) {
    const auto made = plan(problem, config);
    ASSERT_TRUE(call.run(*made));
    const std::vector<float> first = call.output();
    if (small) {
      EXPECT_EQ(call.judge(), "") << native_name(config);
    }
    for (int repeat = 0; repeat < 50; ++repeat) {
      ASSERT_TRUE(call.run(*made));
      ASSERT_EQ(call.output(), first) << native_name(config) << ", repeat " << repeat;
    }
    if (small) continue;
    // The float64 reference of these takes minutes: they are compared with keys that are not cut.
    AttentionProblem whole = problem;
    whole.splits = 1;
    const auto uncut = plan(whole, config);
    ASSERT_TRUE(call.run(*uncut));
    EXPECT_LT(apart(first, call.output()), 0.01) << native_name(config);
  }
}

// Items of eight pieces from a list; of ten, which blocks look for; and of four, six and eight, that pairs of blocks
// join by the first kernel where the device does not hold all clusters of so many. Of 8 bits clusters of two and eight
// join the items of tiles of 16 queries.
INSTANTIATE_TEST_SUITE_P(Lengths, CudaDecodeLatentTest,
                         ::testing::Values(LatentRows{3, 2, 700, 8}, LatentRows{20, 1, 1200, 16},
                                           LatentRows{16, 1, 2000, 0}, LatentRows{11, 1, 3000, 0},
                                           LatentRows{8, 1, 4000, 0}, LatentRows{3, 2, 700, 8, KvElements::fp8},
                                           LatentRows{16, 1, 2000, 0, KvElements::int8},
                                           LatentRows{8, 1, 1200, 0, KvElements::fp8},
                                           LatentRows{2, 1, 4000, 0, KvElements::int8}));

// Where there are more pieces than blocks, blocks take them from a queue, which every launch leaves as it was.
TEST_F(CudaDecodeTest, PiecesAreTakenFromAQueueByAllLaunches) {
  AttentionProblem problem = decode_problem();
  problem.batch = 70, problem.seqlen_k = 300, problem.seqlen_q = 1, problem.splits = 5;
  for (const std::int64_t page : {0, 16}) {
    problem.page_size = page;
    testing::RandomCall call(problem, 11, 8);
    for (const KernelConfig& config : kernels(problem)) {
      const auto made = plan(problem, config);
      ASSERT_TRUE(call.run(*made));
      const std::vector<float> first = call.output();
      EXPECT_EQ(call.judge(), "") << native_name(config);
      for (int repeat = 0; repeat < 20; ++repeat) {
        ASSERT_TRUE(call.run(*made));
        ASSERT_EQ(call.output(), first) << native_name(config) << ", repeat " << repeat;
      }
    }
  }
}

// Where all pieces run at once, each has a block by its place in the grid, whatever the sequences' lengths are.
TEST_F(CudaDecodeTest, PiecesOfTheGridNeedNoList) {
  AttentionProblem problem = decode_problem();
  problem.batch = 4, problem.heads_q = 64, problem.heads_kv = 1, problem.seqlen_q = 1, problem.splits = 0;
  for (const std::int64_t keys : {1000, 65, 1}) {
    for (const std::int64_t page : {1, 16, 64}) {
      problem.seqlen_k = keys, problem.page_size = page;
      testing::RandomCall call(problem, 17, 8);
      for (const KernelConfig& config : kernels(problem)) {
        const auto made = plan(problem, config);
        ASSERT_TRUE(call.run(*made));
        const std::vector<float> first = call.output();
        EXPECT_EQ(call.judge(), "") << native_name(config);
        for (int repeat = 0; repeat < 20; ++repeat) {
          ASSERT_TRUE(call.run(*made));
          ASSERT_EQ(call.output(), first) << native_name(config) << ", repeat " << repeat;
        }
      }
    }
  }
}

TEST_F(CudaDecodeTest, StreamsDoNotDisturbEachOther) {
  const std::vector<KernelConfig> tiles = kernels(decode_problem());
  ASSERT_FALSE(tiles.empty());
  const auto made = plan(decode_problem(), tiles.front());
  std::vector<std::thread> threads;
  std::vector<std::string> verdicts(4);
  for (std::size_t t = 0; t < verdicts.size(); ++t)
    threads.emplace_back([&, t] {
      testing::RandomCall call(decode_problem(), 40 + t, 8);
      for (int repeat = 0; repeat < 20 && verdicts[t].empty(); ++repeat) {
        const Status ran = call.run(*made);
        verdicts[t] = ran ? call.judge() : ran.error().text();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& verdict : verdicts) EXPECT_EQ(verdict, "");
}

TEST_F(CudaDecodeTest, RunsInsideACapturedGraphAndInACallersWorkspace) {
  const AttentionProblem problem = decode_problem();
  const std::vector<KernelConfig> tiles = kernels(problem);
  ASSERT_FALSE(tiles.empty());
  const auto made = plan(problem, tiles.front());
  testing::OnDevice tensors(problem);
  const CudaStream stream = CudaStream::create(*tensors.context).value();
  ASSERT_TRUE(made->run(tensors.arguments, {.stream = stream.handle()}));
  ASSERT_TRUE(stream.synchronize());
  const std::vector<std::uint16_t> expected = tensors.output();
  const auto clear = [&] {
    return fill_bytes(*tensors.context, tensors.arguments.o, 0xff, tensors.memory[3].bytes(), stream.handle());
  };
  const auto graph = CudaGraph::capture(*tensors.context, stream.handle(), [&]() -> Status {
    for (int i = 0; i < 3; ++i) TS_TRY(made->run(tensors.arguments, {.stream = stream.handle()}));
    return {};
  });
  ASSERT_TRUE(graph) << graph.error().text();
  for (int replay = 0; replay < 5; ++replay) {
    ASSERT_TRUE(clear());
    ASSERT_TRUE(graph->launch(stream.handle()));
    ASSERT_TRUE(stream.synchronize());
    ASSERT_EQ(tensors.output(), expected);
  }
  ASSERT_GT(made->workspace_bytes(), 0u);
  const CudaBuffer workspace = CudaBuffer::allocate(*tensors.context, made->workspace_bytes()).value();
  ASSERT_TRUE(fill_bytes(*tensors.context, workspace.data(), 0xff, workspace.bytes(), stream.handle()));
  ASSERT_TRUE(clear());
  ASSERT_TRUE(made->run(tensors.arguments, {.stream = stream.handle(), .workspace = workspace.data()}));
  ASSERT_TRUE(stream.synchronize());
  EXPECT_EQ(tensors.output(), expected);
}

}  // namespace
}  // namespace tilesmith
