#include "jit/build.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/file.hpp"
#include "base/log.hpp"
#include "jit/fake_toolchain.hpp"

namespace tilesmith {
namespace {
using testing::binary_of;
using testing::FakeToolchain;
using testing::make_source;

class Build : public ::testing::Test {
 protected:
  void SetUp() override { store_ = std::move(Store::open(directory_.path() / "store").value()); }
  TemporaryDirectory directory_ = testing::fast_directory();
  std::unique_ptr<Store> store_;
  FakeToolchain toolchain_;
};

TEST_F(Build, ResultsComeInOrderAndOneFailureIsItsOwn) {
  std::vector<Source> sources;
  for (int i = 0; i < 40; ++i) sources.push_back(make_source("s" + std::to_string(i)));
  sources[7].text = "refuse this";
  sources[19].text = "crash on this";
  sources[30].entry_symbol = "no identifier";
  BuildOptions options;
  options.workers = 4;
  const auto results = build(*store_, toolchain_, sources, options);
  ASSERT_EQ(results.size(), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (i == 7 || i == 19 || i == 30) continue;
    ASSERT_TRUE(results[i].has_value()) << i << ": " << results[i].error().text();
    EXPECT_EQ(results[i]->entry_symbol, sources[i].entry_symbol);
    EXPECT_EQ(results[i]->read(), binary_of(sources[i]));
  }
  EXPECT_EQ(results[7].error().code, ErrorCode::compile_failed);
  EXPECT_EQ(results[19].error().code, ErrorCode::internal);
  EXPECT_EQ(results[30].error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(toolchain_.calls, 39);

  // The refused source is remembered, the crash is tried again.
  static_cast<void>(build(*store_, toolchain_, sources, options));
  EXPECT_EQ(toolchain_.calls, 40);
}

TEST_F(Build, EqualSourcesAreCompiledOnce) {
  std::vector<Source> sources(10, make_source("same"));
  sources[4] = make_source("other");
  BuildOptions options;
  options.workers = 4;
  const auto results = build(*store_, toolchain_, sources, options);
  EXPECT_EQ(toolchain_.calls, 2);
  for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(results[i]->read(), binary_of(sources[i]));
}

TEST_F(Build, NothingIsNothing) {
  EXPECT_TRUE(build(*store_, toolchain_, std::span<const Source>{}).empty());
}

TEST_F(Build, WorkersRunAtOnceButNotMoreThanAllowed) {
  std::vector<Source> sources;
  for (int i = 0; i < 12; ++i) sources.push_back(make_source("w" + std::to_string(i)));
  toolchain_.delay = std::chrono::milliseconds(40);
  BuildOptions options;
  options.workers = 3;
  static_cast<void>(build(*store_, toolchain_, sources, options));
  EXPECT_GT(toolchain_.most_running, 1);
  EXPECT_LE(toolchain_.most_running, 3);
}

TEST_F(Build, ABadNumberOfWorkersIsEverySourcesError) {
  const testing::ScopedVariable workers("TILESMITH_WORKERS", "several");
  const std::vector<Source> sources = {make_source("a"), make_source("b")};
  const auto results = build(*store_, toolchain_, sources);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NE(results[1].error().message.find("TILESMITH_WORKERS"), std::string::npos);
}

TEST_F(Build, ProgressCountsEverySourceOnce) {
  std::vector<Source> sources;
  for (int i = 0; i < 10; ++i) sources.push_back(make_source("p" + std::to_string(i)));
  static_cast<void>(build(*store_, toolchain_, std::span(sources).first(3)));
  sources[5].text = "refuse";
  sources[9] = sources[8];
  std::vector<BuildProgress> seen;
  BuildOptions options;
  options.workers = 4;
  options.progress = [&seen](const BuildProgress& progress) { seen.push_back(progress); };
  static_cast<void>(build(*store_, toolchain_, sources, options));
  ASSERT_EQ(seen.size(), 10u);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].done, i + 1);
    EXPECT_EQ(seen[i].total, 10u);
  }
  EXPECT_EQ(seen.back().found, 3u);
  EXPECT_EQ(seen.back().failed, 1u);
}

TEST_F(Build, AStopRequestLeavesTheRestCancelled) {
  std::vector<Source> sources;
  for (int i = 0; i < 30; ++i) sources.push_back(make_source("c" + std::to_string(i)));
  std::stop_source stop;
  BuildOptions options;
  options.workers = 2;
  options.limits.stop = stop.get_token();
  options.progress = [&stop](const BuildProgress& progress) {
    if (progress.done == 5) stop.request_stop();
  };
  const auto results = build(*store_, toolchain_, sources, options);
  std::size_t built = 0;
  for (const auto& result : results) {
    if (result) ++built;
    EXPECT_TRUE(result || result.error().code == ErrorCode::cancelled);
  }
  EXPECT_GE(built, 5u);
  EXPECT_LE(built, 7u) << "those under way may end";
  EXPECT_EQ(store_->stats()->entries, built);
}

TEST_F(Build, ABatchThatIsCancelledIsOfAllItsSources) {
  std::vector<Source> sources;
  for (int i = 0; i < 4; ++i) sources.push_back(make_source("s" + std::to_string(i)));
  sources[1].text = "stop";
  BuildOptions options;
  options.workers = 1;
  options.batch = 4;
  std::size_t done = 0;
  options.progress = [&done](const BuildProgress& progress) { done = progress.done; };
  for (const auto& result : build(*store_, toolchain_, sources, options)) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::cancelled);
  }
  EXPECT_EQ(toolchain_.calls, 1) << "none is tried again";
  EXPECT_EQ(done, 4u);
}

TEST_F(Build, ShortMemoryIsTriedOnceMore) {
  const auto result = build(*store_, toolchain_, make_source("m", "starve once"));
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(toolchain_.calls, 2);
}

TEST_F(Build, BatchesShareACallAndKeepFailuresApart) {
  std::vector<Source> sources;
  for (int i = 0; i < 12; ++i) sources.push_back(make_source("b" + std::to_string(i)));
  sources[2].options = {"-O3"};
  sources[6].text = "refuse";
  sources[9].entry_symbol = sources[8].entry_symbol;  // two of one name cannot be in one binary
  BuildOptions options;
  options.workers = 1;
  options.batch = 4;
  const auto results = build(*store_, toolchain_, sources, options);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ASSERT_EQ(results[i].has_value(), i != 6) << i;
    if (i == 6) continue;
    EXPECT_NE(results[i]->read()->find("binary of " + sources[i].text + ":"), std::string::npos) << i;
  }
  EXPECT_LT(toolchain_.calls, 10) << "12 sources, 4 of them one by one after the failed batch";
  std::set<std::filesystem::path> paths;
  for (const auto& result : results)
    if (result) paths.insert(result->path);
  EXPECT_EQ(paths.size(), 11u);
  EXPECT_TRUE(store_->verify()->corrupt.empty());
  EXPECT_EQ(store_->stats()->in_progress, 0u);
}

TEST_F(Build, BatchesOfTwoThreadsWithTheSameKeysDoNotDeadlock) {
  std::vector<Source> forwards, backwards;
  for (int i = 0; i < 24; ++i) forwards.push_back(make_source("d" + std::to_string(i)));
  backwards.assign(forwards.rbegin(), forwards.rend());
  BuildOptions options;
  options.workers = 2;
  options.batch = 6;
  toolchain_.delay = std::chrono::milliseconds(2);
  std::jthread other([&] {
    for (const auto& result : build(*store_, toolchain_, backwards, options)) EXPECT_TRUE(result.has_value());
  });
  for (const auto& result : build(*store_, toolchain_, forwards, options)) EXPECT_TRUE(result.has_value());
  other.join();
  EXPECT_EQ(store_->stats()->entries, 24u);
}

}  // namespace
}  // namespace tilesmith
