#include "base/fork.hpp"

#include <pthread.h>

#include <new>

namespace tilesmith {

struct AtForkList {
  std::mutex mutex;
  AtFork* first = nullptr;

  static void before();
  static void in_parent();
  static void in_child();
};

namespace {
// Constant-initialised and never destroyed: objects register while the program starts and leave while it ends.
constinit AtForkList list;
[[maybe_unused]] const int registered =
    ::pthread_atfork(&AtForkList::before, &AtForkList::in_parent, &AtForkList::in_child);
}  // namespace

void AtForkList::before() {
  list.mutex.lock();
}

void AtForkList::in_parent() {
  list.mutex.unlock();
}

void AtForkList::in_child() {
  list.mutex.unlock();
  for (const AtFork* each = list.first; each != nullptr; each = each->next_) each->in_child_(each->object_);
}

AtFork::AtFork(void* object, Handler in_child) : object_(object), in_child_(in_child) {
  const std::lock_guard lock(list.mutex);
  next_ = list.first;
  if (next_ != nullptr) next_->previous_ = this;
  list.first = this;
}

AtFork::~AtFork() {
  const std::lock_guard lock(list.mutex);
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : list.first) = next_;
}

bool renew(std::mutex& mutex) {
  if (mutex.try_lock()) {
    mutex.unlock();
    return false;
  }
  new (&mutex) std::mutex;
  return true;
}

}  // namespace tilesmith
