// Values that are lent to one user at a time: bounded, by several threads, and across a fork.
#include "choose/kept.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

namespace tilesmith {
namespace {

TEST(Kept, IsLentToOneUserAtATimeAndComesBackAsItWasLeft) {
  Kept<int, int> kept;
  int made = 0;
  const auto make = [&] { return ++made; };
  {
    const Lent first(&kept, 7, make);
    const Lent second(&kept, 7, make);
    EXPECT_NE(&*first, &*second);
    *first += 100;
  }
  EXPECT_EQ(made, 2);
  EXPECT_EQ(kept.size(), 2u);
  const Lent again(&kept, 7, make), other(&kept, 7, make), third(&kept, 8, make);
  EXPECT_EQ(*again + *other, 101 + 2);
  EXPECT_EQ(*third, 3) << "of another key";
  EXPECT_EQ(kept.size(), 0u);
}

TEST(Kept, ForgetsWhatWasNotUsedForLongest) {
  Kept<int, int> kept;
  const int most = static_cast<int>(Kept<int, int>::kMost);
  for (int key = 0; key < most; ++key) kept.keep(key, std::make_unique<int>(key));
  kept.keep(0, kept.take(0));
  kept.keep(most, std::make_unique<int>(most));
  EXPECT_EQ(static_cast<int>(kept.size()), most);
  EXPECT_EQ(kept.take(1), nullptr);
  EXPECT_NE(kept.take(0), nullptr);
  EXPECT_NE(kept.take(most), nullptr);
}

TEST(Kept, WithoutAPlaceEachUserHasItsOwn) {
  Kept<int, int>* const nowhere = nullptr;
  const Lent one(nowhere, 1, [] { return 5; });
  EXPECT_EQ(*one, 5);
}

TEST(Kept, ThreadsNeverShareAValue) {
  Kept<int, std::atomic<int>> kept;
  std::atomic<bool> shared{false};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 3000; ++i) {
          auto users = kept.take(i % 3);
          if (users == nullptr) users = std::make_unique<std::atomic<int>>(0);
          if (users->fetch_add(1) != 0) shared = true;
          if (i % 64 == thread) std::this_thread::yield();
          users->fetch_sub(1);
          kept.keep(i % 3, std::move(users));
        }
      });
  }
  EXPECT_FALSE(shared);
  EXPECT_LE(kept.size(), 12u);
}

/// A key that is being compared, which is under the lock, until it may go on.
struct SlowKey {
  std::atomic<int>* stage = nullptr;
  friend bool operator==(const SlowKey& a, const SlowKey& b) {
    std::atomic<int>* const stage = a.stage != nullptr ? a.stage : b.stage;
    if (stage != nullptr) {
      *stage = 1;
      while (*stage == 1) std::this_thread::yield();
    }
    return true;
  }
};

TEST(Kept, AChildForgetsWhatAnotherThreadHeld) {
  Kept<SlowKey, int> kept;
  kept.keep({}, std::make_unique<int>(1));
  std::atomic<int> stage{0};
  std::jthread holder([&] { static_cast<void>(kept.take({&stage})); });
  while (stage != 1) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    bool right = kept.take({}) == nullptr;
    kept.keep({}, std::make_unique<int>(2));
    const auto own = kept.take({});
    right = right && own != nullptr && *own == 2;
    ::_exit(right ? 0 : 1);
  }
  stage = 2;
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tilesmith
