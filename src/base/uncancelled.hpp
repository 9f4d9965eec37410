// pthread_cancel() unwinds a thread where it opens a file, writes or waits. In the library that would pass functions
// that nothing may pass (the program ends) and leave locks behind.
#pragma once

#include <pthread.h>

namespace tilesmith {

/// During its life the thread is not cancelled; a request stays, and takes effect behind it. For whatever touches files
/// or processes: 30 ns are too much for a call that runs a known plan, which does neither.
class Uncancelled {
 public:
  Uncancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace tilesmith
