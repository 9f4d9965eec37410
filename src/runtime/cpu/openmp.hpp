// The OpenMP runtime that something else in this process has loaded: PyTorch brings one. Its threads spin for
// milliseconds behind each of its parallel regions (GOMP_SPINCOUNT), on the very processors that threads of our own
// would wait for. So where there is one, jobs run on its threads: a training step of PyTorch that calls us took six
// times as long without (docs/log/2026-11-backward.md).
//
// Nothing is linked or loaded: the runtime is looked for among what the process has loaded, by GNU's entry points,
// which LLVM's and Intel's have too.
#pragma once

namespace tilesmith {

class OpenMp {
 public:
  /// Looks for a runtime, unless one was found. Takes the loader's lock and may allocate: for planning.
  static void look();
  /// What a look has found; null where there was nothing. Null in a forked child too: a child has none of the runtime's
  /// threads, and the runtime would wait for them. (A process that loads this library only after it was forked from one
  /// whose runtime had threads cannot know; the runtime's own users hang there too.)
  [[nodiscard]] static const OpenMp* found();

  /// Of a region that this thread would begin: what omp_set_num_threads or torch.set_num_threads have set.
  [[nodiscard]] int threads() const { return max_threads_(); }
  /// Runs the body on that many threads, on this one alone inside another region, and waits for all.
  void parallel(void (*body)(void*), void* argument) const { parallel_(body, argument, 0, 0); }
  /// Of this thread among those of its region. 0: the one that began it.
  [[nodiscard]] int place() const { return thread_num_(); }

 private:
  static const OpenMp* look_among_loaded();

  using Parallel = void (*)(void (*body)(void*), void* argument, unsigned threads, unsigned flags);
  Parallel parallel_ = nullptr;
  int (*max_threads_)() = nullptr;
  int (*thread_num_)() = nullptr;
};

}  // namespace tilesmith
