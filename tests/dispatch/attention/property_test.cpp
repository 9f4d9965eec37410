// Random attention problems through the dispatcher, with one kernel of each level and pipeline that this machine runs,
// against the float64 reference. Compiling is what takes time, so there are a few signatures and many shapes of each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/random.hpp"
#include "choose/attention/cpu.hpp"
#include "codegen/essential.hpp"
#include "dispatch/attention/random_problem.hpp"
#include "dispatch/cpu_registry.hpp"
#include "dispatch/test_store.hpp"
#include "thorough.hpp"
#include "verify/attention/tensors.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const std::uint64_t kShapes = testing::thorough() ? 96 : 24;

/// One candidate of each level, pipeline and instruction, compiled; which tile is drawn by the seed.
std::vector<std::string> kernels_for(const AttentionProblem& problem, std::uint64_t seed) {
  const CpuMachine& machine = *this_cpu_machine();
  std::map<std::tuple<ArchName, Pipeline, Instruction>, std::vector<KernelConfig>> kinds;
  const std::vector<Candidate> candidates = rank(machine, problem).value().candidates;
  for (const Candidate& candidate : candidates) {
    const Algorithm& algorithm = candidate.recipe.main().algorithm;
    kinds[{candidate.recipe.main().arch, algorithm.pipeline, algorithm.instruction}].push_back(candidate.recipe.main());
  }
  std::vector<KernelConfig> configs;
  for (const auto& [kind, choices] : kinds)
    configs.push_back(choices[RandomStream{seed, configs.size()}.below(0, choices.size())]);
  CpuRegistry registry(machine);
  std::vector<std::string> names;
  const std::vector<Status> built = registry.build(configs, 0, {});
  for (std::size_t i = 0; i < configs.size(); ++i) {
    EXPECT_TRUE(built[i]) << built[i].error().text();
    names.push_back(native_name(configs[i]));
  }
  return names;
}

class AttentionProperty : public ::testing::TestWithParam<std::tuple<AttentionProblem, std::uint64_t>> {};

TEST_P(AttentionProperty, EveryKernelAgreesWithTheReference) {
  const auto& [traits, seed] = GetParam();
  std::vector<std::unique_ptr<testing::RandomCall>> calls;
  for (std::uint64_t shape = 0; shape < kShapes; ++shape)
    calls.push_back(
        std::make_unique<testing::RandomCall>(testing::random_shape(traits, seed * 1000 + shape), seed * 1000 + shape));
  for (const std::string& name : kernels_for(traits, seed)) {
    Dispatcher dispatcher({.threads = 1 + static_cast<int>(seed % 3), .build = BuildPolicy::never, .kernel = name});
    for (const auto& call : calls) {
      const auto plan = dispatcher.plan(call->problem());
      ASSERT_TRUE(plan) << plan.error().text();
      const Status ran = call->run(**plan);
      ASSERT_TRUE(ran) << ran.error().text() << "\n" << testing::describe(call->problem());
      EXPECT_EQ(call->judge(), "") << name << "\n" << testing::describe(call->problem());
    }
  }
}

std::vector<std::tuple<AttentionProblem, std::uint64_t>> signatures() {
  const std::tuple<DataType, std::int64_t, std::int64_t, const char*> rows[] = {
      {DataType::bf16, 64, 64, ""},
      {DataType::bf16, 128, 128, "mask lse"},
      {DataType::bf16, 72, 40, "group mask bias sink lse"},
      {DataType::bf16, 192, 128, "mask alibi cap"},
      {DataType::bf16, 32, 32, "group drop sink lse"},
      {DataType::fp16, 64, 64, "mask bias drop lse"},
      {DataType::fp16, 128, 128, "group alibi"},
      {DataType::fp16, 40, 104, "mask cap sink lse"},
      {DataType::fp32, 64, 64, "mask drop cap bias sink lse"},
      {DataType::fp32, 128, 128, "group mask lse"},
      {DataType::fp32, 88, 256, "alibi lse"},
      {DataType::bf16, 128, 128, "paged mask lse"},
      {DataType::bf16, 64, 64, "group paged mask sink lse"},
      {DataType::fp16, 72, 40, "paged alibi cap"},
      {DataType::fp32, 64, 64, "group paged mask bias drop lse"},
      {DataType::bf16, 128, 128, "paged cache8 mask lse"},
      {DataType::bf16, 72, 40, "group paged cachei8 pagescale mask lse"},
      {DataType::fp16, 64, 64, "paged cache8 pagescale alibi cap"},
      {DataType::fp32, 64, 104, "cachei8 drop lse"},
      {DataType::bf16, 576, 512, "paged latent mask lse"},
  };
  std::vector<std::tuple<AttentionProblem, std::uint64_t>> out;
  for (const auto& [type, qk, v, words] : rows) out.emplace_back(testing::traits(type, qk, v, words), out.size() + 1);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Signatures, AttentionProperty, ::testing::ValuesIn(signatures()),
                         [](const auto& drawn) { return fmt::format("{}", std::get<1>(drawn.param)); });

/// A valid problem: any type, head dims and traits.
AttentionProblem any_problem(std::uint64_t seed) {
  const RandomStream stream{seed, 3000};
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(stream.below(draw++, bound)); };
  constexpr std::array kTypes{DataType::fp32, DataType::tf32,    DataType::bf16,
                              DataType::fp16, DataType::fp8bf16, DataType::fp8fp16};
  const auto head_dim = [&] {
    const std::int64_t most = std::array{8, 40, 130, 512}[static_cast<std::size_t>(below(4))];
    return below(8) == 0 ? most : 1 + below(static_cast<std::uint64_t>(most));
  };
  AttentionProblem p{.data_type = kTypes[static_cast<std::size_t>(below(kTypes.size()))],
                     .mode = below(3) == 0 ? SequenceMode::group : SequenceMode::batch};
  p.head_dim_qk = head_dim();
  p.head_dim_v = below(2) == 0 ? p.head_dim_qk : head_dim();
  p.mask = below(2) == 0 ? MaskKind::top_left : MaskKind::none;
  p.bias = std::array{BiasKind::none, BiasKind::elementwise, BiasKind::alibi}[static_cast<std::size_t>(below(3))];
  p.soft_cap = below(3) == 0;
  p.sink = below(3) == 0;
  p.dropout = below(4) == 0;
  p.lse = below(2) == 0;
  p.block_scale = input_type(p.data_type) == DataType::fp8 && below(2) == 0;
  if (!p.block_scale && below(3) == 0) p.page_size = 1;
  if (input_type(p.data_type) != DataType::fp8 && below(3) == 0) {
    p.cache = below(2) == 0 ? KvElements::fp8 : KvElements::int8;
    p.page_scale = p.page_size > 0 && below(2) == 0;
  }
  return testing::random_shape(p, seed);
}

TEST(AttentionFallback, EveryValidProblemIsServedWithoutACompiler) {
  if (essential_kernels().empty()) GTEST_SKIP() << "this build has no essential kernels";
  const testing::EmptyStore store;
  std::vector<std::string> generic{""};  // the dispatcher's own choice, and each level's generic kernel
  for (const KernelConfig& config : CpuRegistry(*this_cpu_machine()).essential())
    if (config.algorithm.pipeline == Pipeline::generic) generic.push_back(native_name(config));
  ASSERT_GT(generic.size(), 1u);
  for (std::uint64_t seed = 0; seed < 4 * kShapes; ++seed) {
    const AttentionProblem problem = any_problem(seed);
    testing::RandomCall call(problem, seed);
    std::size_t served = 0;
    for (const std::string& kernel : generic) {
      Dispatcher dispatcher({.threads = 1 + static_cast<int>(seed % 3), .build = BuildPolicy::never, .kernel = kernel});
      const auto plan = dispatcher.plan(problem);
      if (!plan && !kernel.empty()) continue;  // of another data type
      ASSERT_TRUE(plan) << testing::describe(problem) << ": " << plan.error().text();
      const Status ran = call.run(**plan);
      ASSERT_TRUE(ran) << ran.error().text() << "\n" << testing::describe(problem);
      EXPECT_EQ(call.judge(), "") << (*plan)->kernel_name() << "\n" << testing::describe(problem);
      served += !kernel.empty();
    }
    EXPECT_GE(served, 1u) << testing::describe(problem);
  }
}

/// A kernel that changes an input and computes from what it has made of it.
class WritesItsKeys final : public AttentionPlan {
 public:
  explicit WritesItsKeys(const AttentionPlan& kernel)
      : AttentionPlan(kernel.problem(), kernel.info()), kernel_(kernel) {}

  Status run(const AttentionArguments& arguments, const RunOptions& options) const override {
    auto* const key = static_cast<float*>(const_cast<void*>(arguments.k));
    *key = -*key;
    return kernel_.run(arguments, options);
  }

 private:
  const AttentionPlan& kernel_;
};

TEST(AttentionCalls, AKernelThatWritesItsInputIsFound) {
  const AttentionProblem problem{.data_type = DataType::fp32,
                                 .batch = 1,
                                 .heads_q = 2,
                                 .heads_kv = 1,
                                 .seqlen_q = 9,
                                 .seqlen_k = 30,
                                 .head_dim_qk = 37,
                                 .head_dim_v = 37};
  testing::RandomCall call(problem, 1);
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(problem);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_TRUE(call.run(**plan));
  EXPECT_EQ(call.judge(), "");
  ASSERT_TRUE(call.run(WritesItsKeys(**plan)));
  EXPECT_NE(call.judge().find("changed its input k"), std::string::npos) << call.judge();
}

TEST(AttentionDropout, EveryKernelMakesTheSameMask) {
  // Equal logits and an identity for v: output (i, j) is 1/64/(1 - p) where (i, j) is kept and 0 where it is dropped.
  AttentionProblem problem{
      .batch = 2, .heads_q = 3, .heads_kv = 1, .seqlen_q = 37, .seqlen_k = 64, .head_dim_qk = 64, .head_dim_v = 64};
  problem.data_type = DataType::fp32;
  problem.dropout = true;
  AttentionArguments arguments = dense_arguments(problem, AttentionLayout::bhsd);
  const std::vector<float> zeros(2 * 3 * 64 * 64, 0.0F);
  std::vector<float> identity(64 * 64, 0.0F), o(2 * 3 * 37 * 64);
  for (std::size_t j = 0; j < 64; ++j) identity[j * 65] = 1;
  arguments.q = arguments.k = zeros.data();
  arguments.v = identity.data();
  arguments.v_strides.batch = 0;
  arguments.o = o.data();
  arguments.dropout_probability = 0.25;
  arguments.seed = 0x123456789abcdef0;
  arguments.offset = 0x9876543210;
  AttentionTensors rule;
  rule.heads_q = problem.heads_q;
  rule.seed = arguments.seed;
  rule.offset = arguments.offset;
  rule.drop_threshold = 16384;
  for (const std::string& name : kernels_for(problem, 5)) {
    Dispatcher dispatcher({.threads = 2, .build = BuildPolicy::never, .kernel = name});
    const auto plan = dispatcher.plan(problem);
    ASSERT_TRUE(plan) << plan.error().text();
    ASSERT_TRUE((*plan)->run(arguments));
    std::size_t wrong = 0, kept = 0;
    for (std::int64_t row = 0; row < 2 * 3 * 37; ++row)
      for (std::int64_t j = 0; j < 64; ++j) {
        const bool keep = keeps(rule, row / (3 * 37), row / 37 % 3, row % 37, j);
        kept += keep;
        wrong += keep != (o[static_cast<std::size_t>(row * 64 + j)] != 0);
      }
    EXPECT_EQ(wrong, 0u) << name;
    EXPECT_NEAR(static_cast<double>(kept) / (2 * 3 * 37 * 64), 0.75, 0.02);
  }
}

}  // namespace
}  // namespace tilesmith
