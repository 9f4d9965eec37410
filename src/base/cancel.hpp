// Asking a thread from outside to give up its wait. A call that has to compile first takes seconds, and the thread that
// made it may be the one that a user's Ctrl-C is meant for.
#pragma once

#include <cstdint>
#include <stop_token>

namespace tilesmith {

/// For its life cancel_waits() reaches the thread that made it. Scopes of one thread nest.
class CancelScope {
 public:
  CancelScope();
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  [[nodiscard]] std::stop_token stop() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  CancelScope* outer_;
};

/// The token of the calling thread's innermost scope; one that nobody can stop where there is none.
[[nodiscard]] std::stop_token current_stop();

/// Stops the scopes there are now of the thread with this id (gettid), or of all threads when it is 0.
void cancel_waits(std::int64_t thread);

}  // namespace tilesmith
