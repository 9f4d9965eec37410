// What a fork does to an object that several threads use. The child has the memory of every thread and runs one of
// them: a mutex that another thread held stays locked for ever, and what it guards may be half changed. Waiting in the
// parent until every lock is free would stop a fork for as long as a compile takes. So nothing is waited for: in the
// child each object looks whether its lock was held, and if so begins anew and forgets, without freeing, what it had.
//
// Handlers run in the child alone, where no other thread exists, before fork() returns. They may allocate, as glibc has
// renewed its own locks by then. posix_spawn runs none of them.
#pragma once

#include <mutex>

namespace tilesmith {

/// Calls `in_child(object)` in every child that is forked during its life.
class AtFork {
 public:
  using Handler = void (*)(void* object);
  AtFork(void* object, Handler in_child);
  ~AtFork();
  AtFork(const AtFork&) = delete;
  AtFork& operator=(const AtFork&) = delete;

 private:
  friend struct AtForkList;
  void* object_;
  Handler in_child_;
  AtFork* previous_ = nullptr;
  AtFork* next_ = nullptr;
};

/// For handlers: makes the mutex usable. True when a thread held it at the fork.
bool renew(std::mutex& mutex);

}  // namespace tilesmith
