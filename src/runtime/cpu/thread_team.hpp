// The threads of a pool that a plan may use: all of them, or fewer. Plans for other numbers of threads share one pool.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

class ThreadTeam {
 public:
  /// All of the pool's threads.
  ThreadTeam(ThreadPool& pool) : ThreadTeam(pool, pool.threads()) {}  // NOLINT: a pool is the largest of its teams
  /// At most as many as the pool has, the caller's included.
  ThreadTeam(ThreadPool& pool, int threads) : pool_(&pool), threads_(std::clamp(threads, 1, pool.threads())) {}

  [[nodiscard]] int threads() const { return threads_; }
  /// The first of these threads.
  [[nodiscard]] ThreadTeam at_most(int threads) const { return {*pool_, std::min(threads, threads_)}; }

  /// As in ThreadPool.
  void reserve_scratch(std::size_t bytes) const { pool_->reserve_scratch(bytes); }
  void run(const TsCpuKernel& kernel, const void* args) const { pool_->run(kernel, args, threads_); }

 private:
  ThreadPool* pool_;
  int threads_;
};

}  // namespace tilesmith
