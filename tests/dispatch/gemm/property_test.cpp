// Random GEMM problems of every type, order and epilogue, run by kernels of every kind on guarded memory and compared
// with float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "choose/gemm/cpu.hpp"
#include "codegen/essential.hpp"
#include "dispatch/cpu_registry.hpp"
#include "dispatch/gemm/random_gemm.hpp"
#include "dispatch/test_store.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/gemm/transpose.hpp"
#include "runtime/cpu/machine.hpp"
#include "thorough.hpp"
#include "verify/gemm/reference.hpp"
#include "vocabulary/memory_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Runs one tile of each kind of kernel on every fourth random problem, from the first on.
void run_random_problems(std::uint64_t first, std::uint64_t problems,
                         const std::function<GemmProblem(std::uint64_t)>& draw) {
  const auto& machine = this_cpu_machine();
  ASSERT_TRUE(machine) << machine.error().text();
  if (testing::thorough()) problems *= 6;
  std::size_t kernels = 0;
  for (std::uint64_t i = 0; i < problems; ++i) {
    const std::uint64_t seed = first + 4 * i;
    const GemmProblem problem = draw(seed);
    const GemmProblem computed = with_row_d(problem);
    const auto signature = cpu_signature_of(computed);
    ASSERT_TRUE(signature) << signature.error().text();
    testing::RandomGemm call(problem, seed);
    if (i % 2 == 1) call.add_numbers();
    const auto reference = GemmReference::make(call.tensors(), memory_type_of(problem.type_d), 1);
    ASSERT_TRUE(reference) << reference.error().text();
    // One tile of each level, instruction, pipeline and way with k, another one for each problem.
    std::map<std::string, std::vector<std::string>> kinds;
    for (const CpuSpec& spec : machine->levels)
      enumerate_cpu_gemm(spec, *signature, [&](const KernelConfig& config) {
        if (serves(*machine, config, computed))
          kinds[std::string(spec.arch.text()) + std::string(name_of(config.algorithm.instruction)) +
                std::string(name_of(config.algorithm.pipeline)) + (config.algorithm.split_k ? "split" : "")]
              .push_back(native_name(config));
        return true;
      });
    ASSERT_FALSE(kinds.empty()) << native_name({.arch = machine->levels[0].arch, .signature = *signature});
    std::size_t turn = 0;
    for (const auto& [kind, names] : kinds) {
      if (turn++ % 3 != i % 3) continue;  // compiling takes most of the time
      const std::string& name = names[i % names.size()];
      Dispatcher dispatcher({.threads = 1 + static_cast<int>(i % 3), .kernel = name});
      const auto plan = dispatcher.plan(problem);
      ASSERT_TRUE(plan) << plan.error().text();
      EXPECT_EQ(call.judge(**plan, *reference), "")
          << "seed " << seed << ": " << name << " m " << problem.m << " n " << problem.n << " k " << problem.k
          << " batch " << problem.batch << " " << name_of(problem.grouping);
      ++kernels;
    }
  }
  EXPECT_GT(kernels, problems / 2);
}

/// Which quarter of the problems: random_gemm_problem() takes the type of the inputs from seed % 4.
class GemmProperty : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(GemmProperty, EveryKindOfKernelComputesRandomProblems) {
  run_random_problems(GetParam(), 4, testing::random_gemm_problem);
}

TEST_P(GemmProperty, EveryKindOfKernelComputesTwoProductsInOneSum) {
  run_random_problems(GetParam(), 3, testing::random_second_problem);
}

TEST_P(GemmProperty, EveryKindOfKernelComputesGroupsScalesAndWeights) {
  run_random_problems(GetParam(), 4, [](std::uint64_t seed) { return testing::random_expert_problem(seed); });
}

/// A kernel that changes an input and computes from what it has made of it.
class WritesItsA final : public GemmPlan {
 public:
  explicit WritesItsA(const GemmPlan& kernel) : GemmPlan(kernel.problem(), kernel.info()), kernel_(kernel) {}

  Status run(const GemmArguments& arguments, const RunOptions& options) const override {
    auto* const a = static_cast<float*>(const_cast<void*>(arguments.a.data));
    *a = -*a;
    return kernel_.run(arguments, options);
  }

 private:
  const GemmPlan& kernel_;
};

TEST(GemmCalls, AKernelThatWritesItsInputIsFound) {
  const GemmProblem problem = gemm_problem(DataType::fp32, 9, 7, 30);
  testing::RandomGemm call(problem, 1);
  const auto reference = GemmReference::make(call.tensors(), memory_type_of(problem.type_d), 1);
  ASSERT_TRUE(reference) << reference.error().text();
  Dispatcher dispatcher({.threads = 1});
  const auto plan = dispatcher.plan(problem);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(call.judge(**plan, *reference), "");
  EXPECT_NE(call.judge(WritesItsA(**plan), *reference).find("changed its input"), std::string::npos);
}

std::string every_field(const GemmProblem& p) {
  std::string text;
  GemmProblem::fields(p, [&](std::string_view name, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, GemmEpilogue>) {
      for (const EpilogueOp op : value) text += fmt::format(" {}", name_of(op));
    } else if constexpr (std::is_enum_v<T>) {
      text += fmt::format(" {}={}", name, name_of(value));
    } else {
      text += fmt::format(" {}={}", name, value);
    }
  });
  return text;
}

TEST(GemmFallback, EveryValidProblemIsServedWithoutACompiler) {
  if (essential_kernels().empty()) GTEST_SKIP() << "this build has no essential kernels";
  const testing::EmptyStore store;
  std::vector<std::string> kernels{""};  // the dispatcher's own choice, and each level's generic kernel
  for (const KernelConfig& config : CpuRegistry(*this_cpu_machine()).essential())
    if (config.operation() == Operation::gemm && config.algorithm.pipeline == Pipeline::generic)
      kernels.push_back(native_name(config));
  ASSERT_GT(kernels.size(), 1u);
  for (std::uint64_t seed = 0; seed < (testing::thorough() ? 1400u : 105u); ++seed) {
    const GemmProblem problem = testing::any_gemm_problem(seed);
    const Status valid = validate(problem);
    ASSERT_TRUE(valid) << valid.error().text() << every_field(problem);
    testing::RandomGemm call(problem, seed);
    const auto reference = GemmReference::make(call.tensors(), memory_type_of(problem.type_d), 1);
    ASSERT_TRUE(reference) << reference.error().text() << every_field(problem);
    for (const std::string& kernel : kernels) {
      Dispatcher dispatcher({.threads = 1 + static_cast<int>(seed % 3), .build = BuildPolicy::never, .kernel = kernel});
      const auto plan = dispatcher.plan(problem);
      ASSERT_TRUE(plan) << plan.error().text() << every_field(problem);
      EXPECT_EQ(call.judge(**plan, *reference), "")
          << "seed " << seed << ": " << (*plan)->kernel_name() << every_field(problem);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GemmProperty, ::testing::Range<std::uint64_t>(0, 4));

}  // namespace
}  // namespace tilesmith
