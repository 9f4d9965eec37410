// Plans of several steps: every kernel is had, one workspace serves all, and the steps run in order. Shown with an
// operation that only tests have.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "dispatch/allocation_count.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/softmax_recipe.hpp"
#include "dispatch/workspace.hpp"
#include "runtime/aligned_buffer.hpp"

namespace tilesmith {
namespace {
using testing::CpuSoftmax;
using testing::SoftmaxStep;

class RecipePlans : public ::testing::Test {
 protected:
  ThreadPool pool{2};
  CpuSoftmax kernels{pool};

  Result<std::unique_ptr<SoftmaxPlan>> plan(std::int64_t n, const DispatcherOptions& options = {}) {
    return choose_plan<Softmax>(kernels, {n}, options);
  }
  static std::vector<float> numbers(std::int64_t n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 1.7F) * 5;
    return x;
  }
  static void expect_softmax(const SoftmaxPlan& plan, const RunOptions& options = {}) {
    const std::vector<float> x = numbers(plan.problem().n);
    std::vector<float> y(x.size(), -1);
    ASSERT_TRUE(plan.run({.x = x.data(), .y = y.data()}, options));
    double sum = 0;
    for (const float each : x) sum += std::exp(double{each});
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], std::exp(double{x[i]}) / sum, 1e-6) << i;
  }
};

TEST_F(RecipePlans, ThreeStepsComputeTogetherInOneWorkspace) {
  for (const std::int64_t n : {1, 10, 11, 1003}) {
    const auto made = plan(n);
    ASSERT_TRUE(made) << made.error().text();
    const SoftmaxPlan& three = **made;
    ASSERT_EQ(three.steps().size(), 3U);
    EXPECT_EQ(three.predicted_seconds(), 3e-6);
    EXPECT_EQ(three.reason(), "first of 2 candidates by the test");
    ASSERT_EQ(three.workspace().size(), 2U);
    EXPECT_EQ(three.workspace()[0].name, "maxima");
    EXPECT_EQ(three.workspace()[1].name, "sums");
    EXPECT_EQ(three.workspace()[1].offset % WorkspaceLayout::kAlignment, 0U);
    EXPECT_GE(three.workspace()[1].offset, three.workspace()[0].bytes);
    EXPECT_EQ(three.workspace_bytes(), three.workspace()[1].offset + three.workspace()[1].bytes);
    expect_softmax(three);
  }
  EXPECT_EQ(std::vector(kernels.asked.begin(), kernels.asked.begin() + 3),
            (std::vector{SoftmaxStep::maximum, SoftmaxStep::exponentials, SoftmaxStep::divide}));
}

TEST_F(RecipePlans, StepsTellTheirKernelsAndThePlanTheirNames) {
  const auto made = plan(7).value();
  std::string joined;
  for (const PlanStep& step : made->steps()) {
    EXPECT_EQ(step.role, "compute");
    EXPECT_FALSE(step.what.empty());
    joined += (joined.empty() ? "" : "+") + step.kernel;
  }
  EXPECT_EQ(made->kernel_name(), joined);
  const Recipe read = parse_recipe_name(made->kernel_name()).value();
  EXPECT_EQ(read, kernels.rank({7}).value().candidates.front().recipe);
}

TEST_F(RecipePlans, TheCallersWorkspaceIsUsedWithinItsBytes) {
  const auto made = plan(1003).value();
  constexpr std::size_t kGuard = 64;
  AlignedBuffer workspace(made->workspace_bytes() + kGuard);
  std::memset(workspace.data(), 0x55, made->workspace_bytes() + kGuard);
  expect_softmax(*made, {.workspace = workspace.data()});
  const auto* bytes = reinterpret_cast<const unsigned char*>(workspace.data());
  EXPECT_NE(bytes[0], 0x55);
  for (std::size_t i = 0; i < kGuard; ++i) EXPECT_EQ(bytes[made->workspace_bytes() + i], 0x55);
  const auto refused = made->run({}, {.workspace = workspace.data() + 4});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, "a multiple of 64 bytes");
}

TEST_F(RecipePlans, RunningAllocatesNothing) {
  const auto made = plan(1003).value();
  const std::vector<float> x = numbers(1003);
  std::vector<float> y(x.size());
  ASSERT_TRUE(made->run({.x = x.data(), .y = y.data()}));
  const std::size_t before = testing::allocations();
  EXPECT_TRUE(made->run({.x = x.data(), .y = y.data()}));
  EXPECT_EQ(testing::allocations(), before);
}

TEST_F(RecipePlans, AStepThatCannotBeBuiltIsNamedAndTheNextRecipeServes) {
  kernels.broken.emplace(SoftmaxStep::exponentials, Error{ErrorCode::compile_failed, "no exponentials today", ""});
  auto made = plan(33);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ((*made)->steps().size(), 2U);
  EXPECT_NE((*made)->reason().find("step 2 of 3 (gemm"), std::string::npos) << (*made)->reason();
  EXPECT_NE((*made)->reason().find("no exponentials today"), std::string::npos) << (*made)->reason();
  expect_softmax(**made);

  kernels.broken.emplace(SoftmaxStep::maximum, Error{ErrorCode::compile_failed, "no maximum either", ""});
  made = plan(33);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ((*made)->steps().size(), 1U) << "the fallback that needs no compiler";
  expect_softmax(**made);

  kernels.broken.emplace(SoftmaxStep::all, Error{ErrorCode::compile_failed, "nor all", ""});
  made = plan(33);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::compile_failed);
  EXPECT_TRUE(made.error().message.starts_with("step 1 of 3 (gemm")) << made.error().message;
}

TEST_F(RecipePlans, ARecipeIsAskedForByName) {
  const Candidate two = kernels.rank({5}).value().candidates[1];
  const auto made = plan(5, {.kernel = recipe_name(two.recipe)});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ((*made)->kernel_name(), recipe_name(two.recipe));
  EXPECT_EQ((*made)->reason(), "asked for by name");
  expect_softmax(**made);

  const std::string name = recipe_name(two.recipe);
  const auto four = plan(5, {.kernel = name + "+" + name});
  ASSERT_FALSE(four);
  EXPECT_EQ(four.error().message, "more than three steps");
  const auto unknown = plan(5, {.kernel = name + "+nothing"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(unknown.error().message.find("step 3"), std::string::npos) << unknown.error().message;
}

TEST_F(RecipePlans, OperationsOfOneKernelRefuseOtherRecipes) {
  const Recipe two = kernels.rank({5}).value().candidates[1].recipe;
  Dispatcher dispatcher({.threads = 1, .kernel = recipe_name(two)});
  const auto refused = dispatcher.plan(GemmProblem{.m = 4, .n = 4, .k = 4});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("which is computed by one kernel"), std::string::npos)
      << refused.error().message;
}

TEST(WorkspaceLayouts, RegionsAreAlignedAndDoNotOverlap) {
  WorkspaceLayout layout;
  EXPECT_EQ(layout.add("a", 1), 0U);
  EXPECT_EQ(layout.add("nothing", 0), 64U);
  EXPECT_EQ(layout.add("b", 65), 64U);
  EXPECT_EQ(layout.add("c", 8, 256), 256U);
  layout.add_library_memory("counters", 32);
  EXPECT_EQ(layout.bytes(), 264U);
  ASSERT_EQ(layout.regions().size(), 4U);
  for (std::size_t i = 0; i + 1 < 3; ++i)
    EXPECT_LE(layout.regions()[i].offset + layout.regions()[i].bytes, layout.regions()[i + 1].offset);
  EXPECT_TRUE(layout.regions()[3].library_only);
  PlanInfo info;
  layout.tell(info);
  EXPECT_EQ(info.workspace_bytes, 264U);
  EXPECT_EQ(info.workspace.size(), 4U);
  EXPECT_EQ(WorkspaceLayout().bytes(), 0U);
}

}  // namespace
}  // namespace tilesmith
