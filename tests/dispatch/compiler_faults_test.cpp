// What a dispatcher does when compilers and stores let it down: it falls back to the essential kernels, says so once,
// and refuses with the compiler's own words what they cannot compute.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "choose/attention/cpu.hpp"
#include "codegen/essential.hpp"
#include "dispatch/attention/random_problem.hpp"
#include "dispatch/test_store.hpp"
#include "runtime/cpu/machine.hpp"
#include "tilesmith/dispatcher.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {
using testing::EmptyStore;
using testing::RandomCall;
using testing::ScopedVariable;

AttentionProblem common() {
  return {.batch = 1,
          .heads_q = 2,
          .heads_kv = 1,
          .seqlen_q = 40,
          .seqlen_k = 50,
          .head_dim_qk = 64,
          .head_dim_v = 64,
          .mask = MaskKind::top_left,
          .lse = true};
}

/// A head dim that no essential kernel is made for.
AttentionProblem rare() {
  AttentionProblem problem = common();
  problem.head_dim_qk = problem.head_dim_v = 72;
  return problem;
}

std::string fake_compiler(const std::string& name) {
  return std::string(TILESMITH_SOURCE_DIR) + "/tests/jit/fake_compilers/" + name;
}

/// With the environment as the caller set it up, all problems run (when there are essential kernels), rare ones on a
/// generic kernel, and a kernel asked for by name is refused with these words.
void expect_fall_back(ErrorCode code, std::string_view message, std::string_view hint) {
  Dispatcher dispatcher({.threads = 2});
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16}) {
    AttentionProblem problem = common();
    problem.data_type = type;
    const auto plan = dispatcher.plan(problem);
    if (essential_kernels().empty()) {
      EXPECT_FALSE(plan);
      continue;
    }
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_NE((*plan)->reason().find("could not be had"), std::string_view::npos) << (*plan)->reason();
    RandomCall call(problem, 8);
    ASSERT_TRUE(call.run(**plan));
    EXPECT_EQ(call.judge(), "");
  }
  if (const auto plan = dispatcher.plan(rare()); plan || !essential_kernels().empty()) {
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_NE((*plan)->kernel_name().find("_generic_"), std::string_view::npos) << (*plan)->kernel_name();
    RandomCall call(rare(), 8);
    ASSERT_TRUE(call.run(**plan));
    EXPECT_EQ(call.judge(), "");
  }
  // Asked for by name, a kernel that cannot be had is an error.
  const auto ranking = rank(*this_cpu_machine(), rare());
  ASSERT_TRUE(ranking) << ranking.error().text();
  Dispatcher named({.threads = 2, .kernel = native_name(ranking->candidates.front().recipe.main())});
  const auto refused = named.plan(rare());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, code) << refused.error().text();
  EXPECT_NE(refused.error().message.find(message), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().hint.find(hint), std::string::npos) << refused.error().hint;
  if (essential_kernels().empty()) return;
  const std::vector<std::string> said = testing::warnings();
  EXPECT_EQ(std::ranges::count_if(said,
                                  [](const std::string& w) {
                                    return w.find("going on with kernels that need no compiler") != std::string::npos;
                                  }),
            1)
      << "once a process, whatever fails and however often";
}

TEST(CompilerFaults, TheNamedCompilerIsMissing) {
  const EmptyStore store;
  const ScopedVariable compiler("TILESMITH_CXX", "/nonexistent/c++");
  expect_fall_back(ErrorCode::not_found, "TILESMITH_CXX: ", "");
}

TEST(CompilerFaults, NoCompilerIsInThePath) {
  const EmptyStore store;
  const ScopedVariable compiler("TILESMITH_CXX", "");
  const ScopedVariable path("PATH", "/nonexistent");
  expect_fall_back(ErrorCode::not_found, "no C++ compiler: none of g++, clang++ and c++ is in PATH",
                   "set TILESMITH_CXX");
}

TEST(CompilerFaults, TheCompilerRefuses) {
  const EmptyStore store;
  const ScopedVariable compiler("TILESMITH_CXX", fake_compiler("fails"));
  expect_fall_back(ErrorCode::compile_failed, "kernel.cpp:3:7: error: expected something else", "");
}

TEST(CompilerFaults, TheCompilerCrashes) {
  const EmptyStore store;
  const ScopedVariable compiler("TILESMITH_CXX", fake_compiler("crashes"));
  expect_fall_back(ErrorCode::internal, "was killed by signal 11", "");
}

TEST(CompilerFaults, TheCompilerIsKilled) {
  const EmptyStore store;
  const ScopedVariable compiler("TILESMITH_CXX", fake_compiler("is_killed"));
  expect_fall_back(ErrorCode::out_of_memory, "was killed by signal 9", "TILESMITH_WORKERS");
}

TEST(CompilerFaults, TheCompilerWritesGarbage) {
  const EmptyStore store;
  const ScopedVariable compiler("TILESMITH_CXX", fake_compiler("writes_garbage"));
  expect_fall_back(ErrorCode::internal, "no whole shared object", "");
}

TEST(CompilerFaults, ACompilerThatKnowsNotEveryLevelServesTheOthers) {
  const EmptyStore store;
  const std::filesystem::path script = store.path() / "old-compiler";
  ASSERT_TRUE(write_new_file(script,
                             "#!/bin/sh\ncase \"$*\" in *x86-64-v4*) echo 'bad value x86-64-v4 for -march=' >&2; exit "
                             "1;; esac\nexec c++ \"$@\"\n"));
  ASSERT_EQ(::chmod(script.c_str(), 0700), 0);
  const ScopedVariable compiler("TILESMITH_CXX", script.string());
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(rare());
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_TRUE((*plan)->kernel_name().ends_with("_on_x86_64_v3")) << (*plan)->kernel_name();
  RandomCall call(rare(), 10);
  ASSERT_TRUE(call.run(**plan));
  EXPECT_EQ(call.judge(), "");
}

TEST(CompilerFaults, OthersCanWriteToTheStore) {
  const EmptyStore store;
  ASSERT_EQ(::chmod(store.path().c_str(), 0777), 0);
  expect_fall_back(ErrorCode::invalid_argument,
                   "TILESMITH_CACHE_DIR: ", "set TILESMITH_CACHE_DIR to a directory that only you can write to");
}

TEST(CompilerFaults, AStoreThatCannotBeMadeIsDoneWithout) {
  const EmptyStore empty;
  const std::filesystem::path file = empty.path() / "a file";
  ASSERT_TRUE(write_new_file(file, "text"));
  const ScopedVariable cache("TILESMITH_CACHE_DIR", (file / "store").string());
  Dispatcher dispatcher({.threads = 2});
  const auto plan = dispatcher.plan(rare());
  ASSERT_TRUE(plan) << plan.error().text();
  RandomCall call(rare(), 9);
  ASSERT_TRUE(call.run(**plan));
  EXPECT_EQ(call.judge(), "");
  EXPECT_TRUE(std::ranges::any_of(testing::warnings(), [](const std::string& w) {
    return w.find("compiled kernels are not kept for the next run") != std::string::npos;
  }));
}

TEST(CompilerFaults, AKernelAskedForByNameHasNoStandIn) {
  const EmptyStore store;
  Dispatcher dispatcher({.threads = 1});
  AttentionProblem problem = common();
  problem.head_dim_qk = problem.head_dim_v = 128;
  problem.soft_cap = problem.sink = true;
  const std::string name(dispatcher.plan(problem).value()->kernel_name());
  const EmptyStore other;
  const ScopedVariable compiler("TILESMITH_CXX", fake_compiler("fails"));
  Dispatcher named({.threads = 1, .kernel = name});
  const auto plan = named.plan(problem);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::compile_failed);
}

}  // namespace
}  // namespace tilesmith
