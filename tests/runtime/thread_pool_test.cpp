// The pool runs every task once, keeps stages apart, and serves many callers at once.
#include "runtime/cpu/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

namespace tilesmith {
namespace {

struct Args {
  long long tasks[2] = {0, 0};
  std::vector<std::atomic<int>> first, second;
  std::atomic<bool> overlapped{false};
  std::atomic<int> begun{0}, ended{0};

  Args(long long a, long long b)
      : tasks{a, b}, first(static_cast<std::size_t>(a)), second(static_cast<std::size_t>(b)) {}
};

// The kernel's thread hooks have no argument, so they count here.
std::atomic<int> g_begun{0}, g_ended{0}, g_most_at_once{0};

Args& of(const void* args) {
  return *static_cast<Args*>(const_cast<void*>(args));
}

TsCpuKernel two_stages() {
  TsCpuKernel kernel{};
  kernel.abi_version = TS_CPU_ABI_VERSION;
  kernel.stage_count = 2;
  kernel.workspace_bytes = [](const void*) -> long long { return 0; };
  kernel.scratch_bytes = [](const void*) -> long long { return 4096; };
  kernel.thread_begin = [] { ++g_begun; };
  kernel.thread_end = [] { ++g_ended; };
  kernel.stages[0] = {[](const void* a) { return of(a).tasks[0]; },
                      [](const void* a, long long i, void* scratch) {
                        static_cast<char*>(scratch)[4095] = 1;
                        ++of(a).first[static_cast<std::size_t>(i)];
                      }};
  kernel.stages[1] = {[](const void* a) { return of(a).tasks[1]; },
                      [](const void* a, long long i, void*) {
                        for (const auto& count : of(a).first)
                          if (count.load() != 1) of(a).overlapped = true;
                        ++of(a).second[static_cast<std::size_t>(i)];
                      }};
  return kernel;
}

void expect_all_once(const Args& args) {
  for (const auto& count : args.first) ASSERT_EQ(count.load(), 1);
  for (const auto& count : args.second) ASSERT_EQ(count.load(), 1);
  ASSERT_FALSE(args.overlapped.load());
}

TEST(ThreadPool, NoMoreThreadsThanACallMayUse) {
  TsCpuKernel kernel = two_stages();
  kernel.thread_begin = [] {
    const int now = ++g_begun - g_ended;  // the ended ones are read later, so this is no more than there are
    for (int most = g_most_at_once; now > most && !g_most_at_once.compare_exchange_weak(most, now);) continue;
  };
  g_begun = 0;
  g_ended = 0;
  ThreadPool pool(8);
  for (const int most : {3, 1, 8, 2, 5})
    for (int repeat = 0; repeat < 200; ++repeat) {
      g_most_at_once = 0;
      Args args(64, 64);
      pool.run(kernel, &args, most);
      expect_all_once(args);
      ASSERT_LE(g_most_at_once, most);
    }
}

TEST(ThreadPool, EveryTaskRunsOnceAndStagesDoNotOverlap) {
  const TsCpuKernel kernel = two_stages();
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    pool.reserve_scratch(4096);
    for (const auto& [a, b] :
         std::vector<std::pair<int, int>>{{0, 0}, {1, 1}, {0, 5}, {5, 0}, {1, 300}, {300, 1}, {257, 129}})
      for (int repeat = 0; repeat < 20; ++repeat) {
        Args args(a, b);
        pool.run(kernel, &args);
        expect_all_once(args);
      }
  }
  EXPECT_EQ(g_begun.load(), g_ended.load());
}

TEST(ThreadPool, ManyCallersAtOnce) {
  const TsCpuKernel kernel = two_stages();
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&, c] {
      for (int i = 0; i < 200; ++i) {
        Args args(1 + (i * 7 + c) % 40, 1 + i % 13);
        pool.run(kernel, &args);
        for (const auto& count : args.first) wrong += count.load() != 1;
        for (const auto& count : args.second) wrong += count.load() != 1;
        wrong += args.overlapped.load();
        if (i % 50 == 0) pool.reserve_scratch(4096 + static_cast<std::size_t>(i) * 64);
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, SleepingWorkersWakeForALateJob) {
  const TsCpuKernel kernel = two_stages();
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    Args args(50, 50);
    pool.run(kernel, &args);
    expect_all_once(args);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

/// The exit status of a forked child that runs `body`; -1 when it had to be killed.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The thread sanitizer ends a child of a process with threads that starts threads itself.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadsAfterFork = false;
#else
constexpr bool kThreadsAfterFork = true;
#endif

bool runs(ThreadPool& pool) {
  const TsCpuKernel kernel = two_stages();
  pool.reserve_scratch(1 << 16);
  for (int i = 0; i < 20; ++i) {
    Args args(50, 50);
    pool.run(kernel, &args);
    for (const auto& count : args.second)
      if (count.load() != 1) return false;
  }
  return true;
}

// The holder of the pool does not exist in a child that another thread forks meanwhile.
TEST(ThreadPool, AForkDuringAJobGivesAFreshPool) {
  if (!kThreadsAfterFork) GTEST_SKIP() << "not under the thread sanitizer";
  TsCpuKernel waits = two_stages();
  static std::atomic<int> stage;
  stage = 0;
  waits.stages[0].run = [](const void*, long long, void*) {
    ++stage;
    while (stage < 100) std::this_thread::yield();
  };
  for (const int threads : {1, 3}) {
    stage = 0;
    ThreadPool pool(threads);
    std::thread caller([&] {
      Args args(threads, 1);
      pool.run(waits, &args);
    });
    while (stage < threads) std::this_thread::yield();
    EXPECT_EQ(in_child([&] { return runs(pool); }), 0);
    stage = 100;
    caller.join();
    EXPECT_TRUE(runs(pool)) << "the parent's is as it was";
  }
}

TEST(ThreadPool, AChildOfAnIdleProcessHasThreadsOfItsOwn) {
  if (!kThreadsAfterFork) GTEST_SKIP() << "not under the thread sanitizer";
  ThreadPool pool(4);
  ASSERT_TRUE(runs(pool));
  EXPECT_EQ(in_child([&] {
              if (!runs(pool)) return false;
              const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
              return std::distance(begin(tasks), end(tasks)) == 4;
            }),
            0);
}

TEST(ThreadPool, ManyForksWhileThreadsCall) {
  if (!kThreadsAfterFork) GTEST_SKIP() << "not under the thread sanitizer";
  ThreadPool pool(2);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&] {
      // No allocation in the loop: a child inherits the address sanitizer's allocator locked by a thread that it lacks.
      const TsCpuKernel kernel = two_stages();
      Args args(50, 50);
      while (!stop) pool.run(kernel, &args);
    });
  for (int i = 0; i < 30; ++i) EXPECT_EQ(in_child([&] { return runs(pool); }), 0);
  stop = true;
}

TEST(ThreadPool, StopsWithoutEverHavingRun) {
  ThreadPool pool(4);
}

}  // namespace
}  // namespace tilesmith
