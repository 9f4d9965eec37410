// Attention forward on a CUDA device, through the dispatcher: every trait, mode and pipeline against the float64
// reference, on odd sizes and strides, between red zones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/float_types.hpp"
#include "base/random.hpp"
#include "choose/attention/whole_rows.hpp"
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

class CudaAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
  }
};

/// The best instance of each pipeline that computes the problem.
std::vector<KernelConfig> one_of_each_pipeline(Backend& backend, const AttentionProblem& problem) {
  const std::vector<Candidate> candidates = backend.find<AttentionFwd>().value()->rank(problem).value().candidates;
  std::set<Pipeline> seen;
  std::vector<KernelConfig> configs;
  for (const Candidate& candidate : candidates)
    if (seen.insert(candidate.recipe.main().algorithm.pipeline).second) configs.push_back(candidate.recipe.main());
  return configs;
}

using Row = std::tuple<DataType, std::int64_t, std::int64_t, std::string>;  // a literal would print its address

using Calls = std::vector<std::unique_ptr<testing::RandomCall>>;
using Trials = std::vector<std::pair<std::size_t, KernelConfig>>;  // a call, and an instance to run it on

/// Builds the instances side by side, runs each on its call, and compares with the reference.
void expect_right(Backend& backend, const Calls& calls, const Trials& trials) {
  std::vector<KernelConfig> configs;
  for (const auto& [at, config] : trials) configs.push_back(config);
  for (const Status& built : backend.build(configs, 0, {})) ASSERT_TRUE(built) << built.error().text();
  for (const auto& [at, config] : trials) {
    testing::RandomCall& call = *calls[at];
    // The kernel that copies rows belongs to no config, and is compiled here.
    const BuildPolicy policy = copies_rows(config, call.problem()) ? BuildPolicy::allowed : BuildPolicy::never;
    const auto plan = backend.find<AttentionFwd>().value()->plan(call.problem(), {config}, "a test", policy);
    ASSERT_TRUE(plan) << plan.error().text();
    const Status ran = call.run(**plan);
    ASSERT_TRUE(ran) << ran.error().text() << "\n" << native_name(config) << "\n" << testing::describe(call.problem());
    EXPECT_EQ(call.judge(), "") << native_name(config) << "\n" << testing::describe(call.problem());
  }
}

class CudaAttentionProperty : public CudaAttentionTest, public ::testing::WithParamInterface<Row> {};

TEST_P(CudaAttentionProperty, EveryPipelineAgreesWithTheReference) {
  const auto& [type, qk, v, words] = GetParam();
  const AttentionProblem wanted = testing::traits(type, qk, v, words);
  const std::uint64_t first_seed = std::hash<std::string>{}(fmt::format("{} {} {} {}", int(type), qk, v, words)) % 1000;
  const auto backend = open_backend(kDevice, 1).value();
  Calls calls;
  Trials trials;
  for (std::uint64_t shape = 0; shape < 16; ++shape) {
    const std::uint64_t seed = first_seed * 1000 + shape;
    calls.push_back(
        std::make_unique<testing::RandomCall>(testing::random_shape(wanted, seed), seed, wanted.unaligned ? 1 : 16));
    for (const KernelConfig& config : one_of_each_pipeline(*backend, calls.back()->problem())) {
      trials.emplace_back(calls.size() - 1, config);
    }
  }
  expect_right(*backend, calls, trials);
}

const Row kRows[] = {
    {DataType::bf16, 64, 64, ""},
    {DataType::bf16, 128, 128, "mask lse"},
    {DataType::bf16, 256, 256, "mask lse"},
    {DataType::bf16, 72, 40, "group mask odd bias sink lse"},
    {DataType::bf16, 192, 128, "mask alibi cap"},
    {DataType::bf16, 32, 32, "group drop sink lse"},
    {DataType::bf16, 128, 128, "group mask"},
    {DataType::bf16, 128, 128, "mask unaligned lse"},
    {DataType::bf16, 96, 96, "mask drop cap bias sink lse"},
    {DataType::fp16, 64, 64, "mask bias drop lse"},
    {DataType::bf16, 128, 128, "bias lse"},
    {DataType::bf16, 256, 256, "group bias"},
    {DataType::fp16, 128, 128, "group alibi"},
    {DataType::fp16, 40, 104, "mask cap sink lse"},
    {DataType::fp16, 128, 128, "mask alibi lse"},
    {DataType::fp16, 80, 80, "group unaligned mask"},
    {DataType::bf16, 33, 77, "unaligned mask lse"},
    {DataType::bf16, 111, 111, "unaligned mask lse"},
    {DataType::fp16, 52, 57, "unaligned mask odd bias sink lse"},
    {DataType::bf16, 250, 129, "unaligned drop cap"},
    {DataType::fp16, 64, 93, "unaligned alibi"},
    {DataType::bf16, 16, 8, "mask lse"},
    {DataType::bf16, 72, 72,
     "mask lse"},  // rows that end within a column: 16 bytes of it, 48, 80, 112, no whole one before
    {DataType::fp16, 88, 104, "group mask cap sink lse"},
    {DataType::bf16, 120, 200, "drop lse"},
    {DataType::bf16, 24, 48, "group mask bias lse"},
    {DataType::bf16, 168, 136, "mask alibi lse"},
    {DataType::bf16, 5, 3, "unaligned mask lse"},
    {DataType::bf16, 512, 512, "group mask bias lse"},
    {DataType::fp16, 320, 264, "mask alibi cap sink lse"},
    {DataType::bf16, 301, 411, "unaligned drop lse"},
    {DataType::fp32, 64, 64, "mask lse"},
    {DataType::fp32, 128, 128, "group mask bias drop cap sink lse"},
    {DataType::fp32, 256, 256, "mask bias drop lse"},
    {DataType::fp32, 192, 128, "mask alibi cap lse"},
    {DataType::fp32, 512, 384, "mask lse"},
    {DataType::fp32, 33, 77, "unaligned mask cap lse"},
    {DataType::fp32, 1, 1, "unaligned group sink"},
    {DataType::fp32, 12, 8, "mask odd bias lse"},
    {DataType::tf32, 128, 128, "mask lse"},
    {DataType::tf32, 40, 260, "group alibi drop"},
    {DataType::fp8bf16, 64, 64, "mask lse"},
    {DataType::fp8bf16, 128, 128, "mask sink lse"},
    {DataType::fp8fp16, 256, 256, "group mask lse"},
    {DataType::fp8bf16, 128, 128, "block mask lse"},
    {DataType::fp8bf16, 192, 128, "block group mask"},
    {DataType::fp8bf16, 128, 128, "mask alibi cap drop"},
};
INSTANTIATE_TEST_SUITE_P(Signatures, CudaAttentionProperty, ::testing::ValuesIn(kRows),
                         [](const auto& drawn) { return fmt::format("{}", drawn.index); });

TEST_F(CudaAttentionTest, CopiesOfRowsLieInTheCallersWorkspaceAndNowhereElse) {
  if (cuda_devices()->front().compute_major != 9) GTEST_SKIP() << "the device is no Hopper chip";
  AttentionProblem problem;
  problem.batch = 2, problem.heads_q = 6, problem.heads_kv = 2;
  problem.seqlen_q = 333, problem.seqlen_k = 420;
  problem.head_dim_qk = 111, problem.head_dim_v = 57;
  const auto backend = open_backend(kDevice, 1).value();
  const Ranking ranking = backend->find<AttentionFwd>().value()->rank(problem).value();
  for (const Candidate& one : ranking.candidates) {
    const KernelConfig& config = one.recipe.main();
    if (!copies_rows(config, problem)) continue;
    SCOPED_TRACE(native_name(config));
    const auto plan = backend->find<AttentionFwd>().value()->plan(problem, one, "a test", BuildPolicy::allowed).value();
    ASSERT_EQ(plan->info().steps.size(), 3u);
    EXPECT_EQ(plan->info().steps.front().role, "pad");
    EXPECT_EQ(plan->info().steps.back().role, "unpad");
    EXPECT_EQ(plan->workspace_bytes(), static_cast<std::size_t>(rows_of(problem).bytes()));
    testing::OnDevice kept(problem), given(problem);
    ASSERT_TRUE(plan->run(kept.arguments, {}));
    constexpr std::size_t kAround = 4096;
    const CudaBuffer memory = CudaBuffer::allocate(*given.context, plan->workspace_bytes() + 2 * kAround).value();
    ASSERT_TRUE(fill_bytes(*given.context, memory.data(), 0xa5, memory.bytes()));
    auto* const workspace = static_cast<std::byte*>(memory.data()) + kAround;
    ASSERT_TRUE(plan->run(given.arguments, {.workspace = workspace}));
    ASSERT_TRUE(given.context->synchronize());
    EXPECT_EQ(given.output(), kept.output());
    std::vector<std::uint8_t> after(memory.bytes());
    ASSERT_TRUE(copy_to_host(*given.context, after.data(), memory.data(), memory.bytes()));
    ASSERT_TRUE(given.context->synchronize());
    for (std::size_t i = 0; i < kAround; ++i) ASSERT_EQ(after[i] | after[after.size() - 1 - i], 0xa5) << i;
    EXPECT_FALSE(plan->run(given.arguments, {.workspace = workspace + 4}));
  }
}

/// Many queries, whose keys lie in pages: of any size, before a window and behind the last key NaN and in no page.
AttentionProblem prefill(AttentionProblem p, std::uint64_t seed) {
  p = testing::random_shape(p, seed);
  p.batch = 1 + static_cast<std::int64_t>(seed % 3);
  p.page_size = std::array{16, 1, 64, 8, 1000, 3, 128, 24, 7, 256}[seed % 10];
  p.seqlen_q = std::array{65, 128, 300, 513}[seed / 2 % 4];
  p.seqlen_k = std::array{700, 128, 1300, 0, 259, 1024, 90}[seed % 7];
  if (p.window_left > 0) p.window_left = std::min<std::int64_t>(p.window_left * 7, INT64_MAX / 2);
  return p;
}

class CudaPagesProperty : public CudaAttentionTest, public ::testing::WithParamInterface<Row> {};

TEST_P(CudaPagesProperty, TilesOfQueriesAgreeWithTheReference) {
  const auto& [type, qk, v, words] = GetParam();
  const AttentionProblem wanted = testing::traits(type, qk, v, words);
  const auto backend = open_backend(kDevice, 1).value();
  Calls calls;
  Trials trials;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    calls.push_back(std::make_unique<testing::RandomCall>(prefill(wanted, seed), seed, 16));
    const Ranking ranking = backend->find<AttentionFwd>().value()->rank(calls.back()->problem()).value();
    std::vector<KernelConfig> tiles;
    for (const Candidate& one : ranking.candidates)
      if (!is_decode(one.recipe.main().algorithm.pipeline)) tiles.push_back(one.recipe.main());
    ASSERT_FALSE(tiles.empty()) << testing::describe(calls.back()->problem());
    // Each in its turn, and the first choice.
    for (const std::size_t at : std::set<std::size_t>{0, (1 + seed) % tiles.size()}) {
      trials.emplace_back(calls.size() - 1, tiles[at]);
    }
  }
  expect_right(*backend, calls, trials);
}

const Row kPagedRows[] = {
    {DataType::bf16, 128, 128, "paged group mask lse"},
    {DataType::bf16, 64, 64, "paged mask sink lse"},
    {DataType::fp16, 128, 128, "paged mask cap lse"},
    {DataType::bf16, 256, 256, "paged group mask lse"},
    {DataType::fp16, 192, 128, "paged mask alibi lse"},
    {DataType::bf16, 72, 40, "paged group mask bias"},
    {DataType::bf16, 96, 96, "paged drop lse"},
    {DataType::bf16, 128, 128, "paged group lse"},
    {DataType::bf16, 128, 128, "paged group cache8 mask lse"},
    {DataType::fp16, 64, 64, "paged cache8 mask cap sink lse"},
    {DataType::bf16, 80, 48, "paged cache8 mask lse"},
    {DataType::bf16, 128, 128, "paged group cachei8 mask lse"},
    {DataType::fp16, 64, 96, "paged cachei8 mask cap lse"},
};
INSTANTIATE_TEST_SUITE_P(Signatures, CudaPagesProperty, ::testing::ValuesIn(kPagedRows),
                         [](const auto& drawn) { return fmt::format("{}", drawn.index); });

AttentionProblem medium() {
  return {.data_type = DataType::bf16,
          .batch = 2,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = 700,
          .seqlen_k = 900,
          .mask = MaskKind::bottom_right,
          .lse = true};
}

TEST_F(CudaAttentionTest, RepeatsGiveTheSameBits) {
  testing::RandomCall call(medium(), 7, 8);
  const auto backend = open_backend(kDevice, 1).value();
  for (const KernelConfig& config : one_of_each_pipeline(*backend, medium())) {
    const auto plan =
        backend->find<AttentionFwd>().value()->plan(medium(), {config}, "a test", BuildPolicy::allowed).value();
    ASSERT_TRUE(call.run(*plan));
    const std::vector<float> first = call.output();
    EXPECT_EQ(call.judge(), "") << native_name(config);
    for (int repeat = 0; repeat < 250; ++repeat) {
      ASSERT_TRUE(call.run(*plan));
      ASSERT_EQ(call.output(), first) << native_name(config) << ", repeat " << repeat;
    }
  }
}

// Logits that rise by hundreds from block to block of keys: Hopper's tiles come again, and must end.
TEST_F(CudaAttentionTest, SteepLogitsAgreeWithTheReference) {
  const auto backend = open_backend(kDevice, 1).value();
  std::uint64_t seed = 0;
  for (const auto& [qk, v, words] : {std::tuple(64, 64, "lse"), std::tuple(64, 64, "group mask lse"),
                                     std::tuple(128, 128, "lse"), std::tuple(128, 128, "group mask sink lse"),
                                     std::tuple(192, 128, "mask lse"), std::tuple(256, 256, "mask lse")}) {
    for (const std::int64_t left : {-1, 300}) {
      AttentionProblem problem = testing::traits(DataType::bf16, qk, v, words);
      problem.batch = 3, problem.heads_q = 4, problem.heads_kv = 2, problem.seqlen_q = 150, problem.seqlen_k = 900;
      if (problem.mask != MaskKind::none) problem.mask = MaskKind::bottom_right;
      problem.window_left = left;
      testing::RandomCall call(problem, ++seed, 16);
      call.steepen(100);
      for (const KernelConfig& config : one_of_each_pipeline(*backend, problem)) {
        const auto plan =
            backend->find<AttentionFwd>().value()->plan(problem, {config}, "a test", BuildPolicy::allowed).value();
        ASSERT_TRUE(call.run(*plan));
        EXPECT_EQ(call.judge(), "") << native_name(config) << "\n" << testing::describe(problem);
        const std::vector<float> first = call.output();
        ASSERT_TRUE(call.run(*plan));
        EXPECT_EQ(call.output(), first) << native_name(config) << "\n" << testing::describe(problem);
      }
    }
  }
}

// A tile that is careful for one of its rows gives the others the bits that they had, and so do the tiles that follow
// it: where its first blocks foretell the steep row, and where their keys are all 0, so that it comes again.
TEST_F(CudaAttentionTest, RowsKeepTheirBitsBesideSteepOnes) {
  AttentionProblem problem = medium();
  problem.heads_q = 64;
  problem.batch = 4;
  constexpr std::int64_t kSteepRow = 600, kFlatKey = 500;
  for (const auto& [dim, foretold] : {std::pair(64, true), std::pair(64, false), std::pair(128, true),
                                      std::pair(128, false), std::pair(256, true), std::pair(256, false)}) {
    SCOPED_TRACE(fmt::format("head dim {}, {}", dim, foretold ? "foretold" : "not foretold"));
    problem.head_dim_qk = problem.head_dim_v = dim;
    const testing::OnDevice tensors(problem);
    std::vector<std::vector<std::uint16_t>> inputs;
    const auto upload = [&](std::size_t at) {
      return copy_to_device(*tensors.context, tensors.memory[at].data(), inputs[at].data(), inputs[at].size() * 2);
    };
    for (std::size_t at = 0; at < 3; ++at) {
      std::vector<float> values(tensors.memory[at].bytes() / 2);
      fill_normal(values, {9, at});
      inputs.emplace_back();
      for (const float value : values) inputs[at].push_back(to_bf16(value));
      for (std::size_t i = 0; !foretold && at == 1 && i < values.size(); ++i)
        if (static_cast<std::int64_t>(i) / dim % problem.seqlen_k >= kFlatKey) inputs[at][i] = 0;
      ASSERT_TRUE(upload(at));
    }
    Dispatcher dispatcher({.device = kDevice});
    const auto plan = dispatcher.plan(problem).value();
    ASSERT_TRUE(plan->run(tensors.arguments));
    const std::vector<std::uint16_t> before = tensors.output();
    for (std::int64_t head = 0; head < problem.batch * problem.heads_q; head += 5)
      for (std::int64_t i = 0; i < dim; ++i)
        inputs[0][static_cast<std::size_t>((head * problem.seqlen_q + kSteepRow) * dim + i)] += 8 << 7;  // times 2^8
    ASSERT_TRUE(upload(0));
    ASSERT_TRUE(plan->run(tensors.arguments));
    const std::vector<std::uint16_t> after = tensors.output();
    std::int64_t apart = 0, steep = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] == before[i]) continue;
      const std::int64_t row = static_cast<std::int64_t>(i) / dim;
      ++(row % problem.seqlen_q == kSteepRow && row / problem.seqlen_q % 5 == 0 ? steep : apart);
    }
    EXPECT_EQ(apart, 0);
    EXPECT_GT(steep, 0);
  }
}

TEST_F(CudaAttentionTest, AgreesWithTheCpu) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    AttentionProblem problem = medium();
    problem.dropout = seed == 2;
    problem.bias = seed == 3 ? BiasKind::elementwise : BiasKind::none;
    testing::RandomCall call(problem, seed, 8);
    Dispatcher on_cpu, on_device({.device = kDevice});
    ASSERT_TRUE(call.run(*on_cpu.plan(problem).value()));
    const std::vector<float> cpu = call.output();
    ASSERT_TRUE(call.run(*on_device.plan(problem).value()));
    const std::vector<float> device = call.output();
    ASSERT_EQ(cpu.size(), device.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      difference += std::pow(static_cast<double>(cpu[i]) - static_cast<double>(device[i]), 2);
      norm += std::pow(static_cast<double>(cpu[i]), 2);
    }
    // Two roundings of the output and of the weights to bf16 apart.
    EXPECT_LT(std::sqrt(difference / norm), 6e-3) << seed;
  }
}

TEST_F(CudaAttentionTest, StreamsDoNotDisturbEachOther) {
  AttentionProblem problem = medium();
  problem.batch = 8;
  Dispatcher dispatcher({.device = kDevice});
  const AttentionPlan* plan = dispatcher.plan(problem).value();
  std::vector<std::thread> threads;
  std::vector<std::string> verdicts(4);
  for (std::size_t t = 0; t < verdicts.size(); ++t)
    threads.emplace_back([&, t] {
      testing::RandomCall call(problem, 40 + t, 8);
      for (int repeat = 0; repeat < 20 && verdicts[t].empty(); ++repeat) {
        const Status ran = call.run(*plan);
        verdicts[t] = ran ? call.judge() : ran.error().text();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& verdict : verdicts) EXPECT_EQ(verdict, "");
}

TEST_F(CudaAttentionTest, RunsInsideACapturedGraph) {
  const AttentionProblem problem = medium();
  testing::OnDevice tensors(problem);
  Dispatcher dispatcher({.device = kDevice});
  const AttentionPlan* plan = dispatcher.plan(problem).value();
  const CudaStream stream = CudaStream::create(*tensors.context).value();
  ASSERT_TRUE(plan->run(tensors.arguments, {.stream = stream.handle()}));
  ASSERT_TRUE(stream.synchronize());
  const std::vector<std::uint16_t> expected = tensors.output();
  const auto graph = CudaGraph::capture(*tensors.context, stream.handle(), [&]() -> Status {
    for (int i = 0; i < 3; ++i) TS_TRY(plan->run(tensors.arguments, {.stream = stream.handle()}));
    return {};
  });
  ASSERT_TRUE(graph) << graph.error().text();
  for (int replay = 0; replay < 5; ++replay) {
    ASSERT_TRUE(fill_bytes(*tensors.context, tensors.arguments.o, 0xff, tensors.memory[3].bytes(), stream.handle()));
    ASSERT_TRUE(graph->launch(stream.handle()));
    ASSERT_TRUE(stream.synchronize());
    ASSERT_EQ(tensors.output(), expected);
  }
}

TEST_F(CudaAttentionTest, PlanningInsideACaptureIsAllowed) {
  AttentionProblem problem = medium();
  problem.seqlen_k = 333;
  testing::OnDevice tensors(problem);
  const CudaStream stream = CudaStream::create(*tensors.context).value();
  Dispatcher dispatcher({.device = kDevice});
  const auto graph = CudaGraph::capture(*tensors.context, stream.handle(), [&]() -> Status {
    TS_ASSIGN(const AttentionPlan* plan, dispatcher.plan(problem));
    return plan->run(tensors.arguments, {.stream = stream.handle()});
  });
  EXPECT_TRUE(graph) << graph.error().text();
}

TEST_F(CudaAttentionTest, WhatIsNotAlignedIsRefusedWithAWayOut) {
  const AttentionProblem problem = medium();
  testing::OnDevice tensors(problem);
  Dispatcher dispatcher({.device = kDevice});
  const AttentionPlan* plan = dispatcher.plan(problem).value();
  AttentionArguments arguments = tensors.arguments;
  arguments.k = static_cast<const char*>(arguments.k) + 2;
  const Status ran = plan->run(arguments);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(ran.error().message.find("k at address"), std::string::npos) << ran.error().text();
}

TEST_F(CudaAttentionTest, ANegativeScaleIsATraitOfThePlan) {
  AttentionProblem problem = medium();
  testing::OnDevice tensors(problem);
  tensors.arguments.scale = -0.1F;
  Dispatcher dispatcher({.device = kDevice});
  EXPECT_FALSE(dispatcher.plan(problem).value()->run(tensors.arguments));
  problem.negative_scale = true;
  EXPECT_TRUE(dispatcher.plan(problem).value()->run(tensors.arguments));
}

TEST_F(CudaAttentionTest, NothingToDoIsDone) {
  AttentionProblem no_query = medium(), no_sequence = medium();
  no_query.seqlen_q = 0;
  no_sequence.batch = 0;
  Dispatcher dispatcher({.device = kDevice});
  testing::OnDevice keys(medium());
  for (const AttentionProblem& problem : {no_query, no_sequence}) {
    AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bhsd);
    arguments.k = keys.arguments.k;
    arguments.v = keys.arguments.v;
    EXPECT_TRUE(dispatcher.plan(problem).value()->run(arguments));
  }
}

// The copied bias has no tensor map then: reading it was an illegal instruction.
TEST_F(CudaAttentionTest, WithoutKeysTheBiasIsNotRead) {
  AttentionProblem problem = medium();
  problem.bias = BiasKind::elementwise;
  problem.seqlen_k = 0;
  testing::RandomCall call(problem, 3, 16);
  const auto backend = open_backend(kDevice, 1).value();
  for (const KernelConfig& config : one_of_each_pipeline(*backend, problem)) {
    const auto plan =
        backend->find<AttentionFwd>().value()->plan(problem, {config}, "a test", BuildPolicy::allowed).value();
    ASSERT_TRUE(call.run(*plan)) << native_name(config);
    EXPECT_EQ(call.judge(), "") << native_name(config);
  }
}

}  // namespace
}  // namespace tilesmith
