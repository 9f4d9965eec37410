// The tests of thread_pool_test.cpp in a process that has an OpenMP runtime, and what is special there.
#include "runtime/cpu/openmp.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {
namespace {

constexpr int kThreads = 6;
bool g_found_before = false;

/// Before any test: as a framework does, without making the runtime's names known to other libraries.
void* const g_runtime = [] {
  ::setenv("OMP_NUM_THREADS", std::to_string(kThreads).c_str(), 1);
  OpenMp::look();
  g_found_before = OpenMp::found() != nullptr;
  void* runtime = ::dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  OpenMp::look();
  return runtime;
}();

#define NEEDS_RUNTIME() \
  if (g_runtime == nullptr) GTEST_SKIP() << "libgomp.so.1 is not installed"

void set_threads(int threads) {
  reinterpret_cast<void (*)(int)>(::dlsym(g_runtime, "omp_set_num_threads"))(threads);
}

long threads_of_process() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// A kernel of 64 tasks that notes which threads took some.
struct Job {
  std::atomic<int> done{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
};

TsCpuKernel kernel_of_tasks() {
  TsCpuKernel kernel{};
  kernel.abi_version = TS_CPU_ABI_VERSION;
  kernel.stage_count = 1;
  kernel.workspace_bytes = [](const void*) -> long long { return 0; };
  kernel.scratch_bytes = [](const void*) -> long long { return 64; };
  kernel.stages[0] = {[](const void*) -> long long { return 64; },
                      [](const void* argument, long long, void* scratch) {
                        static_cast<char*>(scratch)[0] = 1;
                        auto& job = *static_cast<Job*>(const_cast<void*>(argument));
                        ++job.done;
                        const std::lock_guard lock(job.mutex);
                        job.threads.insert(std::this_thread::get_id());
                      }};
  return kernel;
}

TEST(OpenMp, ALoadedRuntimeIsFoundAndRunsAsManyThreadsAsItSays) {
  NEEDS_RUNTIME();
  EXPECT_FALSE(g_found_before);
  const OpenMp* openmp = OpenMp::found();
  ASSERT_NE(openmp, nullptr);
  EXPECT_EQ(openmp->threads(), kThreads);
  struct Places {
    const OpenMp* openmp;
    std::atomic<unsigned> seen{0};
  } places{openmp};
  openmp->parallel(
      [](void* argument) {
        auto& x = *static_cast<Places*>(argument);
        x.seen |= 1u << x.openmp->place();
      },
      &places);
  EXPECT_EQ(places.seen, (1u << kThreads) - 1);
  EXPECT_EQ(openmp->place(), 0);
}

TEST(OpenMp, APoolStartsNoThreadsBesideTheRuntimes) {
  NEEDS_RUNTIME();
  const TsCpuKernel kernel = kernel_of_tasks();
  set_threads(kThreads);
  {
    ThreadPool pool(kThreads);
    Job first;
    pool.run(kernel, &first);  // the runtime's threads of this thread are there now
    const long before = threads_of_process();
    for (int i = 0; i < 50; ++i) {
      Job job;
      pool.run(kernel, &job);
      EXPECT_EQ(job.done, 64);
    }
    EXPECT_EQ(threads_of_process(), before);
  }
  EXPECT_GE(threads_of_process(), kThreads) << "the runtime's are still there";
}

// torch.set_num_threads(1) and a pool that was asked for more.
TEST(OpenMp, ARuntimeOfFewerThreadsThanThePoolIsLeftAlone) {
  NEEDS_RUNTIME();
  const TsCpuKernel kernel = kernel_of_tasks();
  set_threads(2);
  const long before = threads_of_process();
  {
    ThreadPool pool(kThreads + 3);
    Job job;
    pool.run(kernel, &job);
    EXPECT_EQ(job.done, 64);
    EXPECT_GE(threads_of_process(), before + kThreads + 2);
  }
  set_threads(kThreads);
}

TEST(OpenMp, InsideARegionAJobRunsOnItsCallersThreadAlone) {
  NEEDS_RUNTIME();
  struct Shared {
    ThreadPool pool{kThreads};
    std::atomic<int> ready{0}, right{0};
  } shared;
  shared.ready = 1;  // the thread sanitizer does not know the runtime's barriers
  OpenMp::found()->parallel(
      [](void* argument) {
        auto& x = *static_cast<Shared*>(argument);
        while (x.ready != 1) continue;
        const TsCpuKernel kernel = kernel_of_tasks();
        for (int i = 0; i < 50; ++i) {
          Job job;
          x.pool.run(kernel, &job);
          if (job.done == 64 && job.threads == std::set{std::this_thread::get_id()}) ++x.right;
        }
      },
      &shared);
  EXPECT_EQ(shared.right, 50 * kThreads);
}

// The runtime would wait for threads that are not there.
TEST(OpenMp, AForkedChildHasNone) {
  NEEDS_RUNTIME();
  const TsCpuKernel kernel = kernel_of_tasks();
  ThreadPool pool(kThreads);
  Job job;
  pool.run(kernel, &job);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    OpenMp::look();
    ::_exit(OpenMp::found() == nullptr ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(OpenMp::found(), nullptr) << "the parent's is as it was";
}

}  // namespace
}  // namespace tilesmith
