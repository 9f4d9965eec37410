#include "base/fork.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/log.hpp"

namespace tilesmith {
namespace {

/// The exit status of a forked child that runs `body`; -1 when it had to be killed.
int in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Counted {
  std::mutex mutex;
  int calls = 0, held = 0;
  AtFork at_fork{this, [](void* object) {
                   auto* self = static_cast<Counted*>(object);
                   ++self->calls;
                   self->held += renew(self->mutex);
                 }};
};

TEST(AtFork, IsCalledInTheChildWhileTheObjectLives) {
  Counted first;
  auto second = std::make_unique<Counted>();
  Counted third;
  second.reset();
  EXPECT_EQ(in_child([&] { return first.calls == 1 && third.calls == 1 && first.held == 0; }), 0);
  EXPECT_EQ(first.calls, 0) << "never in the parent";
}

TEST(AtFork, AMutexOfAnotherThreadIsMadeAnew) {
  Counted counted;
  std::atomic<int> stage{0};
  std::jthread holder([&] {
    const std::lock_guard lock(counted.mutex);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  EXPECT_EQ(in_child([&] {
              const std::lock_guard lock(counted.mutex);
              return counted.held == 1;
            }),
            0);
  stage = 2;
}

// A sink that waits (for an interpreter's lock, say) holds the log's lock.
TEST(AtFork, TheLogSpeaksInAChildOfABusyProcess) {
  std::atomic<int> stage{0};
  const pid_t parent = ::getpid();
  set_log_sink([&](LogLevel, std::string_view) {
    if (::getpid() != parent) return;
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  std::jthread speaker([] { log_error("wait"); });
  while (stage != 1) std::this_thread::yield();
  EXPECT_EQ(in_child([] {
              log_error("not lost");
              log_once(LogLevel::error, "key", "neither");
              return true;
            }),
            0);
  stage = 2;
  speaker.join();
  set_log_sink({});
}

}  // namespace
}  // namespace tilesmith
