// The threads that run a CPU kernel's tasks.
//
// One job at a time: the caller works too, idle workers join while the job is open. A worker spins a little between
// jobs, because calls come in bursts and a sleeping thread takes tens of microseconds to wake, then sleeps. A job is
// closed as soon as its last task is done, so a worker that wakes late costs nothing. A second caller that finds the
// pool busy runs its job alone on its own thread: no caller waits, and no more threads run than the machine has.
// Running a job takes no lock and allocates nothing.
//
// Where the process has an OpenMP runtime (runtime/cpu/openmp.hpp), its threads take the workers' places, so that two
// sets of threads do not spin on the same processors. Which threads run a job changes no result.
//
// A forked child has none of the threads, and perhaps a job that nobody will end: there the pool begins anew.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "kernels/cpu/abi.h"
#include "runtime/aligned_buffer.hpp"
#include "runtime/cpu/openmp.hpp"

namespace tilesmith {

class ThreadPool {
 public:
  /// `threads` includes the caller's: 1 starts no thread. Threads start with the first job that can use them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  /// Makes every thread's scratch at least `bytes`. Called when planning, so that running need not allocate, and a look
  /// for an OpenMP runtime is due. Waits for a running job. Where `poisons_scratch` is set (runtime/poison.hpp), fills
  /// them.
  void reserve_scratch(std::size_t bytes);

  /// Runs all stages of the kernel. Safe from any number of threads at once.
  void run(const TsCpuKernel& kernel, const void* args) { run(kernel, args, threads_); }
  /// The same on at most so many threads, the caller's included.
  void run(const TsCpuKernel& kernel, const void* args, int most_threads);

 private:
  struct Worker {
    AlignedBuffer scratch;
    std::thread thread;
  };
  struct alignas(64) Stage {
    std::atomic<long long> next{0};  ///< the next task to hand out
    std::atomic<long long> unfinished{0};
    long long tasks = 0;
  };

  void begin_anew();
  void start_threads();
  void work(Worker& self);
  void run_with_workers();
  void run_with(const OpenMp& openmp);
  void run_tasks(std::byte* scratch);
  static void run_alone(const TsCpuKernel& kernel, const void* args, std::byte* scratch);

  const int threads_;
  bool started_ = false;                          ///< changed by the caller that holds busy_
  std::vector<std::unique_ptr<Worker>> workers_;  ///< workers_[0] is the caller's place and has no thread
  std::size_t scratch_bytes_ = 0;

  std::atomic<bool> busy_{false};
  // The job in flight; written only by the caller that holds busy_, while no worker is in.
  const TsCpuKernel* kernel_ = nullptr;
  const void* args_ = nullptr;
  const OpenMp* openmp_ = nullptr;  ///< whose threads are in it; null: our own
  std::array<Stage, TS_CPU_MAX_STAGES> stages_;
  std::atomic<std::uint64_t> most_workers_{0};  ///< beside the caller; workers too late for a job may read it

  // Bit 0: the job is open. Bits 1..31: workers in it. Upper half: job number, what sleepers wait on.
  std::atomic<std::uint64_t> state_{0};
  std::atomic<bool> stopping_{false};
  AtFork at_fork_{this, [](void* pool) { static_cast<ThreadPool*>(pool)->begin_anew(); }};
};

}  // namespace tilesmith
