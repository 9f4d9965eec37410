#include "base/log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tilesmith {
namespace {

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    level_ = log_level();
    set_log_sink([this](LogLevel level, std::string_view message) { said_.emplace_back(level, message); });
  }
  void TearDown() override {
    set_log_sink({});
    set_log_level(level_);
  }
  LogLevel level_{};
  std::vector<std::pair<LogLevel, std::string>> said_;
};

TEST_F(Log, SaysWhatIsAtOrAboveTheLevel) {
  set_log_level(LogLevel::info);
  log_error("e{}", 1);
  log_warn("w");
  log_info("i");
  log_debug("d");
  ASSERT_EQ(said_.size(), 3u);
  EXPECT_EQ(said_[0], (std::pair{LogLevel::error, std::string("e1")}));
  EXPECT_EQ(said_[2].second, "i");
  set_log_level(LogLevel::off);
  log_error("nothing");
  log_message(LogLevel::off, "nothing");
  EXPECT_EQ(said_.size(), 3u);
}

TEST_F(Log, OnceIsOncePerKeyEvenFromManyThreads) {
  set_log_level(LogLevel::warn);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([] { log_once(LogLevel::warn, "log_test.a", "first"); });
  for (std::thread& thread : threads) thread.join();
  log_once(LogLevel::warn, "log_test.b", "second");
  EXPECT_EQ(said_.size(), 2u);
}

TEST_F(Log, AMessageBelowTheLevelDoesNotUseUpItsOnce) {
  set_log_level(LogLevel::error);
  log_once(LogLevel::warn, "log_test.c", "later");
  EXPECT_TRUE(said_.empty());
  set_log_level(LogLevel::warn);
  log_once(LogLevel::warn, "log_test.c", "later");
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(Log, DefaultSinkIsOneLineOnStandardError) {
  set_log_sink({});
  set_log_level(LogLevel::warn);
  ::testing::internal::CaptureStderr();
  log_warn("disk is {}", "full");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tilesmith: warn: disk is full\n");
}

}  // namespace
}  // namespace tilesmith
