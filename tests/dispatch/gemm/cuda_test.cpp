// GEMM on a CUDA device: random problems of every type, order and epilogue on each pipeline against float64, and what
// plans promise beside: split products from any number of streams and in graphs, the same bits every time, nothing but
// D touched, matrices of more than 2^31 elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/element_type.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/gemm/device_gemm.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "problem/line.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/stream.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

using testing::DeviceGemm;
using testing::GemmValues;

/// What went wrong.
std::string words(const Status& status) {
  return status ? "" : status.error().text();
}

GemmProblem bf16(std::int64_t m, std::int64_t n, std::int64_t k) {
  return gemm_problem(DataType::bf16, m, n, k);
}

class CudaGemmPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto& devices = cuda_devices(); !devices) GTEST_SKIP() << devices.error().text();
    context = CudaContext::of(0).value();
    current = std::make_unique<CudaCurrent>(*context);
    stream = CudaStream::create(*context).value();
    other_stream = CudaStream::create(*context).value();
    backend = open_backend({DeviceKind::cuda, 0}, 1).value();
  }

  /// The problem's candidates, and each as an instance that splits k; with `all` false one tile a pipeline.
  [[nodiscard]] std::vector<KernelConfig> configs_for(const GemmProblem& problem, bool all) const {
    std::vector<KernelConfig> configs;
    const auto ranking = backend->find<Gemm>().value()->rank(problem);
    EXPECT_TRUE(ranking) << ranking.error().text();
    if (!ranking) return configs;
    std::set<Pipeline> seen;
    for (const Candidate& candidate : ranking->candidates) {
      KernelConfig config = candidate.recipe.main();
      if (!seen.insert(config.algorithm.pipeline).second && !all) continue;
      configs.push_back(config);
      config.algorithm.split_k = !config.algorithm.split_k;
      if (backend->find<Gemm>().value()->check(config, problem) && std::ranges::find(configs, config) == configs.end())
        configs.push_back(config);
    }
    return configs;
  }
  /// One instance that splits k, of the pipeline named.
  [[nodiscard]] KernelConfig split_config(const GemmProblem& problem, Pipeline pipeline) const {
    for (const KernelConfig& config : configs_for(problem, true))
      if (config.algorithm.pipeline == pipeline && config.algorithm.split_k) return config;
    ADD_FAILURE() << "no instance splits k";
    return {};
  }
  /// The first instance of each pipeline, every other one in parts, on guarded memory.
  [[nodiscard]] std::vector<GemmProblem> draw(std::uint64_t count, GemmProblem (*one)(std::uint64_t)) const;
  void build(const std::vector<KernelConfig>& configs) const {
    const std::vector<Status> built = backend->build(configs, 0, {});
    for (std::size_t i = 0; i < built.size(); ++i)
      ASSERT_TRUE(built[i]) << native_name(configs[i]) << ": " << built[i].error().text();
  }
  void compute(const std::vector<GemmProblem>& problems) const;
  struct Case {
    GemmProblem problem;
    bool all;  ///< tiles, not pipelines alone
    std::int64_t offset = 0;
  };
  void repeat(const std::vector<Case>& cases) const;
  [[nodiscard]] CudaGraph capture(FunctionRef<Status()> work) const {
    auto graph = CudaGraph::capture(*context, stream.handle(), work);
    EXPECT_TRUE(graph) << graph.error().text();
    return graph ? std::move(*graph) : CudaGraph();
  }
  [[nodiscard]] std::unique_ptr<GemmPlan> plan(const GemmProblem& problem, const KernelConfig& config) const {
    auto made = backend->find<Gemm>().value()->plan(problem, {config}, "a test", BuildPolicy::allowed);
    EXPECT_TRUE(made) << native_name(config) << ": " << made.error().text();
    return made ? std::move(*made) : nullptr;
  }

  const CudaContext* context = nullptr;
  std::unique_ptr<CudaCurrent> current;
  CudaStream stream, other_stream;
  std::unique_ptr<Backend> backend;
};

/// As many random problems, every third unaligned, every second with a B that nothing before writes; none that no
/// kernel computes.
std::vector<GemmProblem> CudaGemmPlans::draw(std::uint64_t count, GemmProblem (*one)(std::uint64_t)) const {
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
void CudaGemmPlans::compute(const std::vector<GemmProblem>& problems) const {
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

TEST_F(CudaGemmPlans, EveryPipelineComputesRandomProblems) {
  compute(draw(48, testing::random_gemm_problem));
}

TEST_F(CudaGemmPlans, EveryPipelineComputesTwoProductsInOneSum) {
  compute(draw(32, testing::random_second_problem));
}

TEST_F(CudaGemmPlans, OperationsFollowAGate) {
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

TEST_F(CudaGemmPlans, TensorsComeWithTheirTiles) {
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

/// Whole numbers come out exactly, and others with the same bits every time, from each of a case's kernels.
void CudaGemmPlans::repeat(const std::vector<Case>& cases) const {
  std::vector<KernelConfig> configs;
  for (const Case& one : cases) std::ranges::copy(configs_for(one.problem, one.all), std::back_inserter(configs));
  ASSERT_NO_FATAL_FAILURE(build(configs));
  for (const Case& one : cases) {
    const auto whole = DeviceGemm::create(*context, one.problem, 5, GemmValues::whole, one.offset);
    const auto normal = DeviceGemm::create(*context, one.problem, 6, GemmValues::normal, one.offset);
    ASSERT_TRUE(whole && normal);
    const CudaBuffer d = whole->make_d(stream.handle()).value();
    std::vector<std::byte> judged;
    for (const KernelConfig& config : configs_for(one.problem, one.all)) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(one.problem, config);
      ASSERT_NE(made, nullptr);
      const RunOptions options{.stream = stream.handle()};
      ASSERT_EQ(words(whole->queue(*made, d, options)), "");
      const auto exact = whole->fetch(d, stream.handle());
      ASSERT_TRUE(exact) << exact.error().text();
      // All kernels agree on every bit, so float64 is asked once.
      if (judged.empty() || *exact != judged) {
        EXPECT_EQ(whole->judge(*exact), "");
        judged = *exact;
      }
      if (!config.algorithm.is_bitwise()) continue;
      std::vector<std::byte> first;
      for (int repeat = 0; repeat < 4; ++repeat) {
        ASSERT_EQ(words(normal->queue(*made, d, options)), "");
        const auto again = normal->fetch(d, stream.handle());
        ASSERT_TRUE(again) << again.error().text();
        if (repeat == 0) first = *again;
        EXPECT_TRUE(*again == first) << "repeat " << repeat << " has other bits";
      }
    }
  }
}

TEST_F(CudaGemmPlans, WholeNumbersOfFewRowsComeOutExactly) {
  std::vector<Case> cases;
  for (const std::int64_t m : {13, 20, 41}) cases.push_back({bf16(m, 200, 1000), true});
  cases.push_back({bf16(13, 200, 520), true});
  cases.back().problem.k2 = 1000;
  repeat(cases);
}

/// More tiles than the rings of all blocks have stages, with one panel of b, one panel of a, and a panel for each batch
/// entry: what a stage holds is copied again only where it is another tile's.
TEST_F(CudaGemmPlans, KeptStagesAreThoseOfTheirTiles) {
  GemmProblem batch = bf16(3'000, 200, 64);
  batch.batch = 30;
  for (const GemmProblem& problem : {bf16(100'000, 144, 24), bf16(100'000, 144, 136), bf16(200, 100'000, 24), batch}) {
    std::vector<KernelConfig> configs = configs_for(problem, true);
    std::erase_if(configs, [](const KernelConfig& config) {
      return config.algorithm.pipeline != Pipeline::warp_specialized || config.algorithm.split_k;
    });
    ASSERT_GE(configs.size(), 12u);
    configs.resize(12);
    ASSERT_NO_FATAL_FAILURE(build(configs));
    const auto whole = DeviceGemm::create(*context, problem, 5, GemmValues::whole, 0);
    ASSERT_TRUE(whole);
    const CudaBuffer d = whole->make_d(stream.handle()).value();
    std::vector<std::byte> judged;
    for (const KernelConfig& config : configs) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      ASSERT_EQ(words(whole->queue(*made, d, {.stream = stream.handle()})), "");
      const auto exact = whole->fetch(d, stream.handle());
      ASSERT_TRUE(exact) << exact.error().text();
      if (!judged.empty() && *exact == judged) continue;
      EXPECT_EQ(whole->judge(*exact), "");
      judged = *exact;
    }
  }
}

/// With a product alone and with two in one sum.
TEST_F(CudaGemmPlans, WholeNumbersOfBatchesComeOutExactly) {
  for (const std::int64_t k2 : {0, 328}) {
    GemmProblem many = bf16(150, 264, 1096);
    many.batch = 2;
    many.beta = true;
    many.k2 = k2;
    repeat({{many, true}});
  }
}

TEST_F(CudaGemmPlans, WholeNumbersOfIntegersComeOutExactly) {
  GemmProblem integers = gemm_problem(DataType::int8, 150, 264, 1104);
  integers.beta = true;
  repeat({{integers, true}});
}

TEST_F(CudaGemmPlans, WholeNumbersOfEveryLayoutComeOutExactly) {
  GemmProblem turned = bf16(152, 136, 200), odd = gemm_problem(DataType::fp16, 77, 83, 331),
              columns = bf16(150, 264, 1096), second = bf16(40, 96, 0);
  turned.order_a = MatrixOrder::column;
  turned.order_b = MatrixOrder::row;
  odd.unaligned = true;
  odd.batch = 2;
  columns.order_d = MatrixOrder::column;
  columns.beta = true;
  second.k2 = 136;
  std::vector<Case> cases{{turned, false}, {odd, false, 1}, {columns, false}, {second, false}};
  turned.k2 = 328;
  odd.k2 = 75;
  cases.push_back({turned, false});
  cases.push_back({odd, false, 1});
  repeat(cases);
}

/// m, n and k that end within the last box of a copy, by tiles of every kind.
TEST_F(CudaGemmPlans, MatricesEndWithinTheirBoxes) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp8, DataType::tf32})
    for (const auto& [a, b] : {std::pair{MatrixOrder::row, MatrixOrder::column},
                               {MatrixOrder::row, MatrixOrder::row},
                               {MatrixOrder::column, MatrixOrder::row},
                               {MatrixOrder::column, MatrixOrder::column}}) {
      constexpr std::int64_t kDepths[] = {16, 48, 336, 1072, 80};  // one step, parts of one, the ring's many
      const std::int64_t rest = type == DataType::fp8 ? 0 : 8;     // rows are whole 16 bytes
      const auto more = static_cast<std::int64_t>(turn % 3);
      GemmProblem problem = gemm_problem(type, 192 + rest + 48 * more, 224 + rest, kDepths[turn % 5] + rest);
      problem.order_a = a;
      problem.order_b = b;
      problem.batch = turn % 4 == 1 ? 2 : 1;
      problem.beta = turn % 3 == 2 && type != DataType::fp8;
      cases.push_back({problem, true});
      ++turn;
    }
  GemmProblem odd = bf16(203, 77, 331);  // that rows are padded to whole 16 bytes, not what they hold
  odd.unaligned = true;
  cases.push_back({odd, true, 1});
  odd.order_a = MatrixOrder::column;
  odd.order_b = MatrixOrder::row;
  cases.push_back({odd, true, 1});
  std::vector<std::vector<KernelConfig>> drawn;
  std::vector<KernelConfig> all;
  for (const Case& one : cases) {
    std::vector<KernelConfig> some;
    std::size_t at = drawn.size();
    for (const KernelConfig& config : configs_for(one.problem, true))
      if (config.algorithm.pipeline == Pipeline::warp_specialized && (some.empty() || at++ % 37 == 0))
        some.push_back(config);
    EXPECT_FALSE(some.empty()) << to_line(one.problem);
    std::ranges::copy(some, std::back_inserter(all));
    drawn.push_back(some);
  }
  ASSERT_NO_FATAL_FAILURE(build(all));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(to_line(cases[i].problem));
    const auto whole = DeviceGemm::create(*context, cases[i].problem, 7, GemmValues::whole, cases[i].offset).value();
    const CudaBuffer d = whole.make_d(stream.handle()).value();
    for (const KernelConfig& config : drawn[i]) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(cases[i].problem, config);
      ASSERT_NE(made, nullptr);
      for (int repeat = 0; repeat < 2; ++repeat) {
        ASSERT_EQ(words(whole.queue(*made, d, {.stream = stream.handle()})), "");
        EXPECT_EQ(whole.judge(whole.fetch(d, stream.handle()).value()), "") << "repeat " << repeat;
      }
    }
  }
}

TEST_F(CudaGemmPlans, WholeNumbersOfEveryTypeComeOutExactly) {
  std::vector<Case> cases;
  for (const DataType type : {DataType::fp8, DataType::int8, DataType::tf32, DataType::fp32}) {
    cases.push_back({gemm_problem(type, 100, 176, 512), false});
    cases.push_back({gemm_problem(type, 100, 176, 208), false});
    cases.back().problem.k2 = 304;
  }
  repeat(cases);
}

/// Rows of A and B that begin anywhere: of each operand in turn, with D whole, by pairs and by elements.
TEST_F(CudaGemmPlans, RowsThatBeginAnywhereAreCopiedWhole) {
  std::vector<Case> cases;
  const auto add = [&](DataType type, std::int64_t m, std::int64_t n, std::int64_t k, bool turned_a, bool turned_b) {
    GemmProblem p = gemm_problem(type, m, n, k);
    if (turned_a) p.order_a = MatrixOrder::column;
    if (turned_b) p.order_b = MatrixOrder::row;
    p.unaligned = p.aligned_d = true;
    p.batch = cases.size() % 3 == 0 ? 3 : 1;
    cases.push_back({p, false});
  };
  for (const std::int64_t n : {96, 98, 99}) add(DataType::bf16, 150, n, 201, false, false);
  add(DataType::fp16, 77, 120, 1003, true, false);
  add(DataType::bf16, 136, 75, 330, false, true);
  add(DataType::fp16, 5, 83, 77, true, true);
  add(DataType::tf32, 70, 90, 131, false, false);
  add(DataType::tf32, 70, 91, 132, true, true);
  add(DataType::int8, 130, 144, 301, false, false);
  add(DataType::fp8, 130, 131, 519, false, false);
  std::size_t copied = 0;
  for (const Case& each : cases)
    for (const KernelConfig& config : configs_for(each.problem, each.all))
      if (config.algorithm.pipeline == Pipeline::warp_specialized) {
        ++copied;
        EXPECT_EQ(plan(each.problem, config)->info().steps.size(), 2u);
      }
  EXPECT_GE(copied, cases.size());
  repeat(cases);
  for (Case& each : cases) {  // and anywhere in memory
    each.offset = 3;
    each.problem.aligned_d = false;
  }
  repeat(cases);
}

/// What is transposed for wgmma: edges in m, n and k, another group of the batch behind each.
class CudaGemmTurns : public CudaGemmPlans, public ::testing::WithParamInterface<DataType> {};

TEST_P(CudaGemmTurns, WholeNumbersComeOutExactly) {
  for (const auto& [a, b] :
       {std::pair{MatrixOrder::row, MatrixOrder::row}, std::pair{MatrixOrder::column, MatrixOrder::row},
        std::pair{MatrixOrder::column, MatrixOrder::column}}) {
    GemmProblem problem = gemm_problem(GetParam(), 304, 400, 336);
    problem.order_a = a;
    problem.order_b = b;
    problem.batch = 2;
    if (a == b) problem.k2 = 176;
    repeat({{problem, true}});
  }
}

INSTANTIATE_TEST_SUITE_P(OfTypes, CudaGemmTurns,
                         ::testing::Values(DataType::fp8, DataType::bf8, DataType::int8, DataType::tf32),
                         [](const auto& type) { return std::string(name_of(type.param)); });

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
    return capture([&]() -> Status {
      for (std::size_t i = from; i < to; ++i) TS_TRY(calls[i].queue(*made, results[i], {.stream = stream.handle()}));
      return {};
    });
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
    // Every eleventh, another eleventh for each problem: they are many.
    std::vector<KernelConfig> some;
    for (std::size_t i = static_cast<std::size_t>(problem.m) % 11; i < all.size(); i += 11) some.push_back(all[i]);
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

TEST_F(CudaGemmPlans, NothingAndZerosAreProductsToo) {
  GemmProblem no_steps = bf16(70, 64, 0), plain = bf16(70, 64, 320), few = bf16(5, 64, 320);
  no_steps.beta = plain.beta = few.beta = true;
  GemmProblem second = plain;
  second.k2 = 192;
  for (const GemmProblem& problem : {no_steps, plain, few, second}) {
    // NaN that alpha = 0 leaves unread.
    auto call = DeviceGemm::create(*context, problem, 40, GemmValues::nan).value();
    call.alpha = problem.k == 0 ? 1.0F : 0.0F;
    for (const KernelConfig& config : configs_for(problem, false))
      for (const float beta : {2.0F, 0.0F}) {
        SCOPED_TRACE(native_name(config));
        const auto made = plan(problem, config);
        ASSERT_NE(made, nullptr);
        const CudaBuffer d = call.make_d(stream.handle()).value();
        call.beta = beta;
        ASSERT_EQ(words(call.queue(*made, d, {.stream = stream.handle()})), "");
        EXPECT_EQ(call.judge(call.fetch(d, stream.handle()).value()), "");
      }
  }
  for (GemmProblem problem : {bf16(0, 64, 320), bf16(70, 0, 320), bf16(70, 64, 320)}) {
    if (problem.m != 0 && problem.n != 0) problem.batch = 0;
    const auto call = DeviceGemm::create(*context, problem, 41, GemmValues::whole).value();
    const auto configs = configs_for(problem, false);
    ASSERT_FALSE(configs.empty());
    const auto made = plan(problem, configs.front());
    ASSERT_NE(made, nullptr);
    const CudaBuffer d = call.make_d(stream.handle()).value();
    EXPECT_TRUE(call.queue(*made, d, {.stream = stream.handle()}));
    EXPECT_TRUE(stream.synchronize());
  }
}

/// A matrix that is too large to be made on the host: zeros, but for some rows.
struct LargeMatrix {
  static constexpr std::int64_t kRows = 70000, kColumns = 40000;                 // 2.8e9 elements
  static constexpr std::int64_t kMarked[] = {0, 1, 53687, 53688, 69998, 69999};  // about 2^31, and the last

  static float value(std::int64_t row, std::int64_t column) {
    return static_cast<float>((row * 7 + column * 3) % 5 - 2);
  }
};

std::vector<std::byte> as_bf16(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 2);
  store_elements(ElementType::bf16, values, bytes.data());
  return bytes;
}

// D = L x S or S x L^T with a large L and a small S of whole numbers; then a large D.
TEST_F(CudaGemmPlans, MatricesHaveMoreThanTwoToThe31Elements) {
  using L = LargeMatrix;
  constexpr std::int64_t kSmall = 16;
  constexpr std::size_t kLargeBytes = 2 * static_cast<std::size_t>(L::kRows * L::kColumns);
  const auto large = CudaBuffer::allocate(*context, kLargeBytes);
  if (!large) GTEST_SKIP() << large.error().text();
  const cu::Stream in = stream.handle();
  std::vector<float> small(static_cast<std::size_t>(kSmall * L::kColumns));
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = i % 7 == 0 ? 1.0F : 0.0F;
  const std::vector<std::byte> small_bytes = as_bf16(small);
  const CudaBuffer small_copy = CudaBuffer::allocate(*context, small_bytes.size()).value();
  ASSERT_TRUE(copy_to_device(*context, small_copy.data(), small_bytes.data(), small_bytes.size(), in));
  ASSERT_TRUE(fill_bytes(*context, large->data(), 0, kLargeBytes, in));
  for (const std::int64_t row : L::kMarked) {
    std::vector<float> values(static_cast<std::size_t>(L::kColumns));
    for (std::int64_t c = 0; c < L::kColumns; ++c) values[static_cast<std::size_t>(c)] = L::value(row, c);
    const std::vector<std::byte> bytes = as_bf16(values);
    ASSERT_TRUE(copy_to_device(*context, static_cast<std::byte*>(large->data()) + 2 * row * L::kColumns, bytes.data(),
                               bytes.size(), in));
    ASSERT_TRUE(stream.synchronize());
  }
  const auto expected = [&](std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t c = 0; c < L::kColumns; ++c)
      sum += L::value(row, c) * small[static_cast<std::size_t>(column * L::kColumns + c)];
    return static_cast<float>(sum);
  };
  // The large matrix as A, then as B.
  for (const bool as_a : {true, false}) {
    GemmProblem problem = as_a ? gemm_problem(DataType::bf16, L::kRows, kSmall, L::kColumns, DataType::fp32)
                               : gemm_problem(DataType::bf16, kSmall, L::kRows, L::kColumns, DataType::fp32);
    GemmArguments arguments = dense_arguments(problem);
    arguments.a.data = as_a ? large->data() : small_copy.data();
    arguments.b.data = as_a ? small_copy.data() : large->data();
    const CudaBuffer d = CudaBuffer::allocate(*context, 4 * L::kRows * kSmall).value();
    arguments.d = d.data();
    for (const KernelConfig& config : configs_for(problem, false)) {
      SCOPED_TRACE(native_name(config));
      const auto made = plan(problem, config);
      ASSERT_NE(made, nullptr);
      ASSERT_TRUE(fill_bytes(*context, d.data(), 0xff, d.bytes(), in));
      ASSERT_EQ(words(made->run(arguments, {.stream = in})), "");
      std::vector<float> got(static_cast<std::size_t>(L::kRows * kSmall));
      ASSERT_TRUE(copy_to_host(*context, got.data(), d.data(), d.bytes(), in));
      ASSERT_TRUE(stream.synchronize());
      const auto at = [&](std::int64_t row, std::int64_t column) {
        return got[static_cast<std::size_t>(as_a ? row * kSmall + column : column * L::kRows + row)];
      };
      for (const std::int64_t row : L::kMarked)
        for (std::int64_t column = 0; column < kSmall; ++column)
          ASSERT_EQ(at(row, column), expected(row, column)) << row << ", " << column;
      EXPECT_EQ(
          std::ranges::count_if(got, [](float v) { return v != 0; }),
          std::ranges::count_if(L::kMarked, [&](std::int64_t row) { return expected(row, 0) != 0; }) + [&] {
            std::ptrdiff_t others = 0;
            for (const std::int64_t row : L::kMarked)
              for (std::int64_t column = 1; column < kSmall; ++column) others += expected(row, column) != 0;
            return others;
          }());
    }
  }
  // D, of one step of k: the first and the last rows, and those about 2^31.
  const GemmProblem wide = bf16(L::kRows, L::kColumns, 64);
  const auto ones = [&](std::int64_t rows, auto value) {
    std::vector<float> values(static_cast<std::size_t>(rows * 64), 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) values[static_cast<std::size_t>(r * 64)] = value(r);
    const std::vector<std::byte> bytes = as_bf16(values);
    CudaBuffer copy = CudaBuffer::allocate(*context, bytes.size()).value();
    EXPECT_TRUE(copy_to_device(*context, copy.data(), bytes.data(), bytes.size(), in));
    EXPECT_TRUE(stream.synchronize());
    return copy;
  };
  const auto a_value = [](std::int64_t r) { return static_cast<float>(r % 11 + 1); };
  const auto b_value = [](std::int64_t c) { return static_cast<float>(c % 13 + 1); };
  const CudaBuffer a = ones(wide.m, a_value), b = ones(wide.n, b_value);
  GemmArguments arguments = dense_arguments(wide);
  arguments.a.data = a.data();
  arguments.b.data = b.data();
  arguments.d = large->data();
  for (const KernelConfig& config : configs_for(wide, false)) {
    if (config.algorithm.split_k) continue;  // 22 GB of parts
    SCOPED_TRACE(native_name(config));
    const auto made = plan(wide, config);
    ASSERT_NE(made, nullptr);
    ASSERT_TRUE(fill_bytes(*context, large->data(), 0xff, kLargeBytes, in));
    ASSERT_EQ(words(made->run(arguments, {.stream = in})), "");
    std::vector<std::byte> row_bytes(2 * L::kColumns);
    for (const std::int64_t row : L::kMarked) {
      ASSERT_TRUE(copy_to_host(*context, row_bytes.data(),
                               static_cast<const std::byte*>(large->data()) + 2 * row * L::kColumns, row_bytes.size(),
                               in));
      ASSERT_TRUE(stream.synchronize());
      for (std::int64_t c = 0; c < L::kColumns; ++c)
        ASSERT_EQ(load_element(ElementType::bf16, row_bytes.data(), static_cast<std::size_t>(c)),
                  static_cast<double>(a_value(row) * b_value(c)))
            << row << ", " << c;
    }
  }
}

}  // namespace
}  // namespace tilesmith
