#include "jit/private_directory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

TEST(PrivateDirectory, SweepingTakesTheDeadAndLeavesTheLiving) {
  const auto parent = TemporaryDirectory::create("tilesmith-private-test-").value();
  const auto living = PrivateDirectory::create(parent.path(), "p-");
  ASSERT_TRUE(living.has_value());
  fs::create_directory(parent.path() / "other");
  fs::create_directory(parent.path() / "p-leftover");
  // A process that dies with two directories of its own.
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t victim = ::fork();
  if (victim == 0) {
    const auto one = PrivateDirectory::create(parent.path(), "p-");
    const auto two = PrivateDirectory::create(parent.path(), "p-");
    static_cast<void>(::write(ready[1], "x", 1) == 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const std::size_t while_alive = sweep_private_directories(parent.path(), "p-");
  EXPECT_EQ(while_alive, 1u) << "only p-leftover, which nobody holds";
  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  EXPECT_EQ(sweep_private_directories(parent.path(), "p-"), 2u);
  EXPECT_TRUE(fs::exists(parent.path() / "other"));
  EXPECT_TRUE(fs::exists(living->path()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(PrivateDirectory, ASweeperNeverTakesWhatIsInUse) {
  const auto parent = TemporaryDirectory::create("tilesmith-private-test-").value();
  std::atomic<bool> stop{false};
  std::jthread sweeper([&] {
    while (!stop) sweep_private_directories(parent.path(), "");
  });
  for (int i = 0; i < 300; ++i) {
    const auto directory = PrivateDirectory::create(parent.path(), "p-");
    ASSERT_TRUE(directory.has_value()) << directory.error().text();
    ASSERT_TRUE(write_new_file(directory->path() / "f", "x").has_value());
    ASSERT_TRUE(fs::exists(directory->path() / "f"));
  }
  stop = true;
}

}  // namespace
}  // namespace tilesmith
