#include "runtime/cpu/thread_pool.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "runtime/poison.hpp"

namespace tilesmith {
namespace {

constexpr std::uint64_t kOpen = 1;
constexpr std::uint64_t kOneWorker = 2;
constexpr std::uint64_t kWorkers = 0xfffffffe;
constexpr std::uint64_t kNextJob = 1ull << 32;

// How long an idle worker watches for the next job before it sleeps: about twice what a futex wake costs.
constexpr auto kSpin = std::chrono::microseconds(60);

inline void pause() {
  __builtin_ia32_pause();
}

/// Spins, then gives the processor away: with more runnable threads than processors the awaited thread may need ours.
template <class Done>
void spin_until(Done done) {
  for (int spins = 0; !done(); ++spins) {
    if (spins < 4000)
      pause();
    else
      std::this_thread::yield();
  }
}

/// Gives the pool back however the holder leaves (growing a buffer may throw).
class Release {
 public:
  explicit Release(std::atomic<bool>& busy) : busy_(busy) {}
  ~Release() { busy_.store(false, std::memory_order_release); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) {
  for (int i = 0; i < threads_; ++i) workers_.push_back(std::make_unique<Worker>());
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  state_.fetch_add(kNextJob);
  state_.notify_all();
  for (auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

void ThreadPool::begin_anew() {
  // The old ones are forgotten and not freed: destroying a thread that is not there ends the program, and another
  // thread may have been growing the scratch.
  for (auto& worker : workers_) {
    static_cast<void>(worker.release());
    worker = std::make_unique<Worker>();
  }
  scratch_bytes_ = 0;
  started_ = false;
  state_ = 0;
  busy_ = false;
}

void ThreadPool::start_threads() {
  started_ = true;
  try {
    for (std::size_t i = 1; i < workers_.size(); ++i)
      workers_[i]->thread = std::thread([this, i] { work(*workers_[i]); });
  } catch (const std::system_error&) {  // no more threads to be had: a job takes whoever is there
  }
}

void ThreadPool::reserve_scratch(std::size_t bytes) {
  OpenMp::look();
  spin_until([this] { return !busy_.exchange(true, std::memory_order_acquire); });
  const Release release(busy_);
  if (bytes > scratch_bytes_) {
    for (auto& worker : workers_) worker->scratch.reserve(bytes, Pages::huge);
    scratch_bytes_ = bytes;
  }
  if (!poisons_scratch) return;
  for (auto& worker : workers_) poison({worker->scratch.data(), worker->scratch.bytes()});
}

void ThreadPool::run_alone(const TsCpuKernel& kernel, const void* args, std::byte* scratch) {
  if (kernel.thread_begin != nullptr) kernel.thread_begin();
  for (unsigned s = 0; s < kernel.stage_count; ++s) {
    const long long tasks = kernel.stages[s].tasks(args);
    for (long long task = 0; task < tasks; ++task) kernel.stages[s].run(args, task, scratch);
  }
  if (kernel.thread_end != nullptr) kernel.thread_end();
}

void ThreadPool::run(const TsCpuKernel& kernel, const void* args, int most_threads) {
  const auto scratch_bytes = static_cast<std::size_t>(kernel.scratch_bytes(args));
  if (busy_.exchange(true, std::memory_order_acquire)) {
    thread_local AlignedBuffer scratch;
    scratch.reserve(scratch_bytes, Pages::huge);
    run_alone(kernel, args, scratch.data());
    return;
  }
  const Release release(busy_);
  if (scratch_bytes > scratch_bytes_) {  // only for a call that was not planned
    for (auto& worker : workers_) worker->scratch.reserve(scratch_bytes, Pages::huge);
    scratch_bytes_ = scratch_bytes;
  }

  long long most_tasks = 0;
  for (unsigned s = 0; s < kernel.stage_count; ++s) {
    const long long tasks = kernel.stages[s].tasks(args);
    stages_[s].tasks = tasks;
    stages_[s].next.store(0, std::memory_order_relaxed);
    stages_[s].unfinished.store(tasks, std::memory_order_relaxed);
    most_tasks = std::max(most_tasks, tasks);
  }
  if (threads_ == 1 || most_threads <= 1 || most_tasks <= 1) {
    run_alone(kernel, args, workers_[0]->scratch.data());
  } else {
    kernel_ = &kernel;
    args_ = args;
    most_workers_.store(static_cast<std::uint64_t>(most_threads) - 1, std::memory_order_relaxed);
    const OpenMp* openmp = OpenMp::found();
    // Always a region of the runtime's own size: its next region of another size ends threads or starts some.
    if (openmp != nullptr && openmp->threads() >= most_threads)
      run_with(*openmp);
    else
      run_with_workers();
  }
}

void ThreadPool::run_with_workers() {
  if (!started_) start_threads();
  state_.fetch_add(kNextJob | kOpen, std::memory_order_release);
  state_.notify_all();
  run_tasks(workers_[0]->scratch.data());
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  spin_until([this] { return (state_.load(std::memory_order_acquire) & kWorkers) == 0; });
}

void ThreadPool::run_with(const OpenMp& openmp) {
  openmp_ = &openmp;
  // The job is never open to our own workers. Both ends of it are seen through state_, as theirs are, although the
  // runtime's barriers would do: the thread sanitizer does not know those.
  state_.fetch_add(kNextJob, std::memory_order_release);
  openmp.parallel(
      [](void* argument) {
        auto& pool = *static_cast<ThreadPool*>(argument);
        pool.state_.load(std::memory_order_acquire);
        const auto place = static_cast<std::uint64_t>(pool.openmp_->place());
        if (place <= pool.most_workers_.load(std::memory_order_relaxed))
          pool.run_tasks(pool.workers_[place]->scratch.data());
        pool.state_.fetch_add(0, std::memory_order_release);
      },
      this);
  state_.load(std::memory_order_acquire);
}

void ThreadPool::run_tasks(std::byte* scratch) {
  const TsCpuKernel& kernel = *kernel_;
  if (kernel.thread_begin != nullptr) kernel.thread_begin();
  for (unsigned s = 0; s < kernel.stage_count; ++s) {
    Stage& stage = stages_[s];
    const bool last = s + 1 == kernel.stage_count;  // whoever is done with it leaves, and the caller waits for all
    for (;;) {
      const long long task = stage.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= stage.tasks) break;
      kernel.stages[s].run(args_, task, scratch);
      if (!last) stage.unfinished.fetch_sub(1, std::memory_order_release);
    }
    if (!last) spin_until([&] { return stage.unfinished.load(std::memory_order_acquire) == 0; });
  }
  if (kernel.thread_end != nullptr) kernel.thread_end();
}

void ThreadPool::work(Worker& self) {
  std::uint64_t seen = 0;  // the job number this worker has dealt with
  for (;;) {
    std::uint64_t state = state_.load(std::memory_order_acquire);
    if (state / kNextJob == seen) {
      const auto sleep_at = std::chrono::steady_clock::now() + kSpin;
      while (state / kNextJob == seen && std::chrono::steady_clock::now() < sleep_at) {
        for (int i = 0; i < 64; ++i) pause();
        state = state_.load(std::memory_order_acquire);
      }
      while (state / kNextJob == seen) {
        state_.wait(state, std::memory_order_acquire);
        state = state_.load(std::memory_order_acquire);
      }
    }
    if (stopping_.load()) return;
    seen = state / kNextJob;
    while ((state & kOpen) != 0 && state / kNextJob == seen) {
      // Where this is the number of a later job, the exchange fails, because the state is that job's too.
      if ((state & kWorkers) / kOneWorker >= most_workers_.load(std::memory_order_relaxed)) break;
      if (!state_.compare_exchange_weak(state, state + kOneWorker, std::memory_order_acq_rel)) continue;
      run_tasks(self.scratch.data());
      state_.fetch_sub(kOneWorker, std::memory_order_acq_rel);
      break;
    }
  }
}

}  // namespace tilesmith
