#include "tilesmith/dispatcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "choose/attention/cpu.hpp"
#include "codegen/essential.hpp"
#include "dispatch/allocation_count.hpp"
#include "dispatch/attention/random_problem.hpp"
#include "dispatch/test_store.hpp"
#include "problem/attention/problem.hpp"
#include "runtime/aligned_buffer.hpp"
#include "runtime/cpu/machine.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {
using testing::RandomCall;

AttentionProblem small(std::int64_t seqlen_q = 33, std::int64_t seqlen_k = 70) {
  return {.batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim_qk = 64,
          .head_dim_v = 64,
          .mask = MaskKind::bottom_right,
          .lse = true};
}

KernelConfig config_of(const AttentionPlan& plan) {
  return parse_native_name(plan.kernel_name()).value();
}

TEST(Dispatcher, APlanSaysWhatItRunsAndWhy) {
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(small());
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->problem(), small());
  EXPECT_TRUE(serves(*this_cpu_machine(), config_of(**plan), small()));
  EXPECT_FALSE((*plan)->reason().empty());
  ASSERT_FALSE((*plan)->steps().empty());
  EXPECT_EQ((*plan)->steps().front().kernel, (*plan)->kernel_name());
  RandomCall call(small(), 1);
  ASSERT_TRUE(call.run(**plan));
  EXPECT_EQ(call.judge(), "");
}

TEST(Dispatcher, AKnownPlanIsFoundAndRunWithoutAllocation) {
  Dispatcher dispatcher({.threads = 2});
  RandomCall call(small(), 2);
  const AttentionPlan* first = dispatcher.plan(small()).value();
  ASSERT_TRUE(call.run(*first));  // starts the pool's threads
  const std::size_t before = testing::allocations();
  const auto again = dispatcher.plan(small());
  const bool same = again.has_value() && *again == first;
  const Status ran = (*again)->run(call.arguments());
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_TRUE(same);
  EXPECT_TRUE(ran);
  EXPECT_NE(dispatcher.plan(small(34)).value(), first);
}

TEST(Dispatcher, RefusesWhatCannotBe) {
  Dispatcher dispatcher({.threads = 1});
  AttentionProblem problem = small();
  problem.heads_kv = 3;
  EXPECT_EQ(dispatcher.plan(problem).error().code, ErrorCode::invalid_argument);
  const AttentionPlan* plan = dispatcher.plan(small()).value();
  AttentionArguments arguments = dense_arguments(small(), AttentionLayout::bhsd);
  const Status refused = plan->run(arguments);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "q is null");
}

TEST(Dispatcher, NothingToDoIsDone) {
  Dispatcher dispatcher({.threads = 2});
  for (const auto& [batch, seqlen_q, seqlen_k] : {std::tuple{0, 3, 3}, {2, 0, 3}, {2, 3, 0}, {2, 0, 0}, {0, 0, 0}}) {
    AttentionProblem problem = small(seqlen_q, seqlen_k);
    problem.batch = batch;
    const auto plan = dispatcher.plan(problem);
    ASSERT_TRUE(plan) << plan.error().text();
    RandomCall call(problem, 3);
    ASSERT_TRUE(call.run(**plan)) << call.run(**plan).error().text();
    EXPECT_EQ(call.judge(), "") << testing::describe(problem);
  }
}

TEST(Dispatcher, EightThreadsPlanAndRunTheSameProblems) {
  Dispatcher dispatcher({.threads = 2});
  constexpr std::size_t kProblems = 6, kThreads = 8;
  std::vector<std::vector<float>> expected;
  std::vector<std::unique_ptr<RandomCall>> calls;  // one for each thread and problem
  for (std::size_t i = 0; i < kProblems * kThreads; ++i) {
    const auto which = i % kProblems;
    calls.push_back(std::make_unique<RandomCall>(small(17 + static_cast<std::int64_t>(which), 90), which));
  }
  std::array<std::array<const AttentionPlan*, kProblems>, kThreads> plans{};
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 3 * kProblems; ++i) {
          const std::size_t which = (i + t) % kProblems;
          RandomCall& call = *calls[t * kProblems + which];
          const auto plan = dispatcher.plan(call.problem());
          if (!plan || (plans[t][which] != nullptr && plans[t][which] != *plan) || !call.run(**plan))
            ++failures;
          else
            plans[t][which] = *plan;
        }
      });
  }
  EXPECT_EQ(failures, 0);
  for (std::size_t which = 0; which < kProblems; ++which) {
    EXPECT_EQ(calls[which]->judge(), "");
    const std::vector<float> first = calls[which]->output();
    for (std::size_t t = 1; t < kThreads; ++t) {
      EXPECT_EQ(plans[t][which], plans[0][which]) << "one problem, one plan";
      const std::vector<float> other = calls[t * kProblems + which]->output();
      ASSERT_EQ(first.size(), other.size());
      EXPECT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)), 0)
          << "the same bits, whoever else ran";
    }
  }
}

TEST(Dispatcher, TheNumberOfThreadsDoesNotChangeTheResult) {
  RandomCall call(small(150, 200), 4);
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    Dispatcher dispatcher(
        {.threads = threads,
         .kernel = std::string(Dispatcher({.threads = 1}).plan(call.problem()).value()->kernel_name())});
    ASSERT_TRUE(call.run(*dispatcher.plan(call.problem()).value()));
    if (first.empty()) first = call.output();
    EXPECT_EQ(call.judge(), "");
    EXPECT_EQ(call.output(), first) << threads;
  }
}

TEST(Dispatcher, AWorkspaceOfTheCallersWillDo) {
  Dispatcher dispatcher({.threads = 2});
  RandomCall call(small(), 5);
  const AttentionPlan* plan = dispatcher.plan(small()).value();
  AlignedBuffer workspace(plan->workspace_bytes() + 64);
  std::memset(workspace.data(), 0xff, workspace.bytes());
  ASSERT_TRUE(call.run(*plan));
  const std::vector<float> own = call.output();
  ASSERT_TRUE(plan->run(call.arguments(), {.workspace = workspace.data()}));
  EXPECT_EQ(call.output(), own);
  for (std::size_t i = plan->workspace_bytes(); i < workspace.bytes(); ++i)
    ASSERT_EQ(workspace.data()[i], std::byte{0xff}) << "written behind the workspace";
}

TEST(Dispatcher, UsesTheKernelThatIsNamed) {
  const Result<CpuMachine>& machine = this_cpu_machine();
  ASSERT_TRUE(machine);
  AttentionProblem problem = small();
  problem.data_type = DataType::fp32;
  const auto candidates = rank(*machine, problem).value().candidates;
  const std::string name = native_name(candidates.back().recipe.main());
  Dispatcher dispatcher({.threads = 1, .kernel = name});
  const auto plan = dispatcher.plan(problem);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->kernel_name(), name);
  RandomCall call(problem, 6);
  ASSERT_TRUE(call.run(**plan));
  EXPECT_EQ(call.judge(), "");

  problem.soft_cap = true;
  const auto other = dispatcher.plan(problem);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(other.error().message.find("does not compute this problem"), std::string::npos);
  EXPECT_NE(other.error().hint.find("softcap"), std::string::npos) << other.error().hint;
}

TEST(Dispatcher, RefusesNamesOfNoKernel) {
  const std::string good = native_name(rank(*this_cpu_machine(), small()).value().candidates.front().recipe.main());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string name = good;
    const auto at = name.find(from);
    EXPECT_NE(at, std::string::npos) << good;
    return name.replace(at, from.size(), to);
  };
  const std::pair<std::string, ErrorCode> names[] = {
      {"fast_please", ErrorCode::invalid_argument},
      {"_on_", ErrorCode::invalid_argument},
      {std::string(5000, 'a'), ErrorCode::invalid_argument},
      {good + "x", ErrorCode::invalid_argument},  // there is no such level
      {with("_bf16", "_bf17"), ErrorCode::invalid_argument},
      {good.substr(0, good.find("_on_")) + "_on_gfx942", ErrorCode::unsupported},
      {with("tile", "tile7"), ErrorCode::unsupported},  // 71 rows and the like: no template carries them
  };
  for (const auto& [name, code] : names) {
    Dispatcher dispatcher({.threads = 1, .kernel = name});
    const auto plan = dispatcher.plan(small());
    ASSERT_FALSE(plan) << name;
    EXPECT_EQ(plan.error().code, code) << name << ": " << plan.error().text();
    EXPECT_FALSE(plan.error().hint.empty()) << name;
  }
}

TEST(Dispatcher, WithoutPermissionToBuildItUsesWhatIsThere) {
  const testing::EmptyStore store;
  AttentionProblem rare = small();
  rare.head_dim_qk = rare.head_dim_v = 96;  // in no essential set
  rare.sink = true;
  constexpr std::string_view kWhy = "not in the store, and compiling is not allowed";
  const DispatcherOptions careful{.threads = 1, .build = BuildPolicy::never};
  Dispatcher early(careful);
  if (const auto plan = early.plan(rare); essential_kernels().empty()) {
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::not_found);
    EXPECT_NE(plan.error().message.find(kWhy), std::string::npos) << plan.error().message;
  } else {
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_NE((*plan)->kernel_name().find("_generic_"), std::string_view::npos) << (*plan)->kernel_name();
    EXPECT_NE((*plan)->reason().find(kWhy), std::string_view::npos) << (*plan)->reason();
  }

  Dispatcher allowed({.threads = 1});
  const auto built = allowed.plan(rare);
  ASSERT_TRUE(built) << built.error().text();
  Dispatcher never(careful);
  const auto found = never.plan(rare);
  ASSERT_TRUE(found) << "it is in the store now: " << found.error().text();
  EXPECT_EQ((*found)->kernel_name(), (*built)->kernel_name());
  RandomCall call(rare, 7);
  ASSERT_TRUE(call.run(**found));
  EXPECT_EQ(call.judge(), "");
}

TEST(Dispatcher, EssentialKernelsServeProblemsWithFewerTraits) {
  if (essential_kernels().empty()) GTEST_SKIP() << "this build has no essential kernels";
  const testing::EmptyStore store;
  Dispatcher dispatcher({.threads = 2, .build = BuildPolicy::never});
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16})
    for (unsigned traits = 0; traits < 32; ++traits) {
      AttentionProblem problem{.data_type = type,
                               .mode = (traits & 1) != 0 ? SequenceMode::group : SequenceMode::batch,
                               .head_dim_qk = 64,
                               .head_dim_v = 64};
      problem.mask = (traits & 2) != 0 ? MaskKind::bottom_right : MaskKind::none;
      problem.lse = (traits & 4) != 0;
      if ((traits & 8) != 0) problem.bias = BiasKind::elementwise;
      problem.sink = problem.dropout = (traits & 16) != 0;
      problem = testing::random_shape(problem, traits);
      const auto plan = dispatcher.plan(problem);
      ASSERT_TRUE(plan) << testing::describe(problem) << ": " << plan.error().text();
      RandomCall call(problem, traits);
      ASSERT_TRUE(call.run(**plan));
      EXPECT_EQ(call.judge(), "") << testing::describe(problem) << " by " << (*plan)->kernel_name();
    }
}

}  // namespace
}  // namespace tilesmith
