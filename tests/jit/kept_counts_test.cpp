#include "jit/kept_counts.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/file.hpp"
#include "jit/counters.hpp"
#include "jit/fake_toolchain.hpp"
#include "jit/store.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

class KeptCounts : public ::testing::Test {
 protected:
  /// A process that does this and ends as programs do.
  template <class Work>
  static pid_t process(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      std::exit(HasFailure());
    }
    return child;
  }
  static void wait(pid_t child) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  void write(std::string_view text) const {
    fs::remove(root_ / "v1/counts");
    ASSERT_TRUE(write_new_file(root_ / "v1/counts", text));
  }

  TemporaryDirectory directory_ = testing::fast_directory();
  fs::path root_ = directory_.path() / "store";
  std::unique_ptr<Store> store_ = Store::open(root_).value();
};

TEST_F(KeptCounts, NothingIsCountedInANewStore) {
  const auto counts = read_counts(root_);
  ASSERT_TRUE(counts.has_value()) << counts.error().text();
  EXPECT_EQ(counts->hits, 0u);
  EXPECT_EQ(counts->since, 0);
}

TEST_F(KeptCounts, ProcessesAtOnceLoseNothing) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i)
    children.push_back(process([&] {
      const BuildCounts more{.hits = 1, .misses = 2, .builds = 3, .failed_builds = 4, .fallbacks = 5, .build_ns = 6};
      for (int n = 0; n < 25;) n += add_counts(root_, more).has_value();
    }));
  for (const pid_t child : children) wait(child);
  const BuildCounts counts = read_counts(root_).value();
  EXPECT_EQ(counts.hits, 100u);
  EXPECT_EQ(counts.misses, 200u);
  EXPECT_EQ(counts.builds, 300u);
  EXPECT_EQ(counts.failed_builds, 400u);
  EXPECT_EQ(counts.fallbacks, 500u);
  EXPECT_EQ(counts.build_ns, 600u);
  EXPECT_GT(counts.since, 1'600'000'000);
}

TEST_F(KeptCounts, AProcessAddsWhenItEndsAndAForkedOneOnlyItsOwn) {
  build_counters().hits.fetch_add(1000);  // this process's, which no child may add
  wait(process([&] {
    build_counters().hits.fetch_add(3);
    keep_counts(root_, KeepCounts::now);
    build_counters().hits.fetch_add(4);
    wait(process([&] {
      build_counters().hits.fetch_add(5);
      keep_counts(root_, KeepCounts::seldom);
    }));
    EXPECT_EQ(read_counts(root_).value().hits, 3u + 5u);
  }));
  EXPECT_EQ(read_counts(root_).value().hits, 3u + 4u + 5u);
}

TEST_F(KeptCounts, DamagedCountsAreSaidAndBeginAnew) {
  const BuildCounts more{.hits = 7};
  for (const char* text : {"", "{", "{}", "[1]", R"({"hits": -1})", R"({"hits": "1"})", "\x7f\x45\x4c\x46"}) {
    write(text);
    const auto damaged = read_counts(root_);
    ASSERT_FALSE(damaged.has_value()) << text;
    EXPECT_EQ(damaged.error().code, ErrorCode::corrupt) << text;
    ASSERT_TRUE(add_counts(root_, more)) << text;
    EXPECT_EQ(read_counts(root_).value().hits, 7u) << text;
  }
  write(std::string(10'000, ' '));
  EXPECT_FALSE(read_counts(root_).has_value());
}

TEST_F(KeptCounts, WhatCannotBeWrittenIsLeftOut) {
  store_.reset();
  fs::remove_all(root_);
  EXPECT_FALSE(add_counts(root_, {.hits = 1}).has_value());
  build_counters().hits.fetch_add(1);
  keep_counts(root_, KeepCounts::now);  // no failure shows
  EXPECT_FALSE(fs::exists(root_));
}

}  // namespace
}  // namespace tilesmith
