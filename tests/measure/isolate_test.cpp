// Whatever an item does to its process, every other item's result arrives.
#include "measure/isolate.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

namespace tilesmith {
namespace {

std::vector<IsolatedResult> run(std::size_t count, FunctionRef<std::string(std::size_t)> work, int limit_ms = 20000) {
  std::vector<IsolatedResult> results;
  const Status status =
      run_isolated(count, std::chrono::milliseconds(limit_ms), work, [&](const IsolatedResult& result) {
        results.push_back(result);
        return true;
      });
  EXPECT_TRUE(status.has_value());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
  return results;
}

TEST(Isolate, ResultsComeInOrder) {
  const auto results = run(50, [](std::size_t i) { return std::string(i * 4000, static_cast<char>('a' + i % 26)); });
  ASSERT_EQ(results.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(results[i].item, i);
    EXPECT_EQ(results[i].payload, std::string(i * 4000, static_cast<char>('a' + i % 26)));
  }
}

TEST(Isolate, CrashesExitsAndExceptionsAreRecordedAndTheRestGoesOn) {
  const auto results = run(8, [](std::size_t i) -> std::string {
    if (i == 1) std::raise(SIGKILL);
    if (i == 2) std::raise(SIGSEGV);
    if (i == 4) ::_exit(3);
    if (i == 5) throw std::runtime_error("no");
    return "fine";
  });
  ASSERT_EQ(results.size(), 8u);
  for (const std::size_t good : {0u, 3u, 6u, 7u}) {
    EXPECT_EQ(results[good].status, IsolatedStatus::done);
    EXPECT_EQ(results[good].payload, "fine");
  }
  EXPECT_EQ(results[1].payload, "killed by signal 9 (Killed)");
  EXPECT_NE(results[2].status, IsolatedStatus::done);
  EXPECT_EQ(results[4].payload, "exited with status 3");
  EXPECT_NE(results[5].status, IsolatedStatus::done);
}

TEST(Isolate, AHangIsKilledAndTheRestGoesOn) {
  const auto results = run(
      4,
      [](std::size_t i) -> std::string {
        if (i == 1)
          for (;;) ::pause();
        return std::to_string(i);
      },
      2000);
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[1].status, IsolatedStatus::timed_out);
  EXPECT_EQ(results[3].payload, "3");
}

TEST(Isolate, TheReporterCanStop) {
  int reports = 0;
  ASSERT_TRUE(run_isolated(
      100, std::chrono::milliseconds(20000), [](std::size_t) { return std::string("x"); },
      [&](const IsolatedResult&) { return ++reports < 3; }));
  EXPECT_EQ(reports, 3);
  // The worker was killed, and is waited for where the next one begins.
  EXPECT_EQ(run(1, [](std::size_t) { return std::string("y"); }).size(), 1u);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Isolate, NothingToDoIsFine) {
  EXPECT_TRUE(run(0, [](std::size_t) { return std::string(); }).empty());
}

}  // namespace
}  // namespace tilesmith
