#include "base/lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Lock : public ::testing::Test {
 protected:
  /// A process that takes the lock, says so, and holds it until it is killed.
  pid_t holder() const {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto lock = FileLock::try_acquire(path_);
      if (lock) static_cast<void>(::write(ready[1], "x", 1) == 1);
      ::close(ready[1]);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    return child;
  }
  static void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-lock-test-").value();
  fs::path path_ = directory_.path() / "lock";
};

TEST_F(Lock, ExcludesAndNamesTheHolder) {
  const pid_t child = holder();
  const auto refused = FileLock::acquire(path_, 30ms);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::busy);
  EXPECT_NE(refused.error().message.find("process " + std::to_string(child)), std::string::npos)
      << refused.error().message;
  end(child);
}

TEST_F(Lock, IsFreeWhenItsHolderIsKilled) {
  end(holder());
  EXPECT_TRUE(FileLock::try_acquire(path_).has_value());
  EXPECT_TRUE(fs::exists(path_)) << "the file stays";
}

TEST_F(Lock, AStoppedHolderDelaysButDoesNotBlock) {
  const pid_t child = holder();
  ::kill(child, SIGSTOP);
  EXPECT_EQ(FileLock::acquire(path_, 50ms).error().code, ErrorCode::busy);
  end(child);
}

TEST_F(Lock, WaitingEndsWhenItIsReleased) {
  auto held = FileLock::try_acquire(path_);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(FileLock::try_acquire(path_).error().code, ErrorCode::busy)
      << "two locks of one process exclude each other too";
  std::jthread releaser([&held] {
    std::this_thread::sleep_for(50ms);
    const FileLock taken = std::move(*held);
  });
  EXPECT_TRUE(FileLock::acquire(path_, 20s).has_value());
}

TEST_F(Lock, AStopRequestEndsTheWait) {
  const auto held = FileLock::try_acquire(path_);
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(FileLock::acquire(path_, 1h, source.get_token()).error().code, ErrorCode::cancelled);
}

TEST_F(Lock, AForkedCopyDoesNotKeepItAlive) {
  auto held = FileLock::try_acquire(path_);
  const pid_t child = ::fork();  // shares the open file
  if (child == 0) {
    for (;;) ::pause();
  }
  { const FileLock released = std::move(*held); }
  EXPECT_TRUE(FileLock::try_acquire(path_).has_value());
  end(child);
}

TEST_F(Lock, WhatCannotBeLockedIsUnsupported) {
  EXPECT_EQ(FileLock::try_acquire(directory_.path()).error().code, ErrorCode::unsupported);
  EXPECT_EQ(FileLock::try_acquire(directory_.path() / "no" / "lock").error().code, ErrorCode::unsupported);
  fs::create_symlink(path_, directory_.path() / "link");
  EXPECT_EQ(FileLock::try_acquire(directory_.path() / "link").error().code, ErrorCode::unsupported);
}

TEST_F(Lock, CountsRightUnderManyThreads) {
  int counter = 0;
  std::atomic<int> inside{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) {
          const auto lock = FileLock::acquire(path_, 60s);
          ASSERT_TRUE(lock.has_value());
          EXPECT_EQ(inside.fetch_add(1), 0);
          ++counter;
          inside.fetch_sub(1);
        }
      });
  }
  EXPECT_EQ(counter, 160);
}

}  // namespace
}  // namespace tilesmith
