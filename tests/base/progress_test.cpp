#include "base/progress.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/file.hpp"
#include "base/log.hpp"

namespace tilesmith {
namespace {

TEST(Progress, InALogSaysOneLineForQuickWork) {
  auto directory = TemporaryDirectory::create("tilesmith-progress-test-").value();
  const auto path = directory.path() / "log";
  const FileDescriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  {
    Progress progress("compiling", 1000, log.get());
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&progress] {
        for (std::uint64_t done = 1; done <= 1000; ++done) progress.update(done, "2 failed");
      });
  }
  const std::string said = read_file(path).value();
  EXPECT_TRUE(said.starts_with("compiling: 1000 of 1000, 2 failed, ")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

class OnATerminal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ours || ::grantpt(ours.get()) != 0 || ::unlockpt(ours.get()) != 0) GTEST_SKIP() << "no pseudo terminal here";
    terminal = FileDescriptor(::open(::ptsname(ours.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(terminal);
  }
  /// What was written to the terminal; waits for something.
  std::string read_some() {
    std::string said(1000, '\0');
    said.resize(static_cast<std::size_t>(::read(ours.get(), said.data(), said.size())));
    return said;
  }
  /// What was written to the terminal up to `end`, which the kernel may hand over in several parts; gives up after a
  /// silence of ten seconds.
  std::string read_up_to(std::string_view end) {
    std::string said;
    while (!said.ends_with(end) && has_something(10'000)) said += read_some();
    return said;
  }
  bool has_something(int milliseconds) {
    pollfd one{ours.get(), POLLIN, 0};
    return ::poll(&one, 1, milliseconds) == 1;
  }

  FileDescriptor ours{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)}, terminal;
};

TEST_F(OnATerminal, ProgressRewritesOneLine) {
  {
    Progress progress("building", 10, terminal.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    progress.update(4);
    progress.update(10);
  }
  const std::string said = read_up_to("\r\n");
  EXPECT_TRUE(said.starts_with("\rbuilding: 4 of 10, ")) << said;
  EXPECT_NE(said.find("s left\x1b[K\rbuilding: 10 of 10, "), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("\r\n")) << said;
}

TEST_F(OnATerminal, WaitingSaysForWhatAndErasesIt) {
  const LogLevel level = log_level();
  set_log_level(LogLevel::warn);
  std::string said;
  {
    const Waiting waiting("compiling x", terminal.get(), std::chrono::milliseconds(1));
    said = read_up_to("s\x1b[K");
  }
  EXPECT_TRUE(said.starts_with("\rcompiling x, 0.")) << said;
  EXPECT_TRUE(read_up_to("\r\x1b[K").ends_with("\r\x1b[K"));
  set_log_level(level);
}

TEST_F(OnATerminal, WaitingIsSilentWhereItIsShortOrTheLogIs) {
  const LogLevel level = log_level();
  set_log_level(LogLevel::warn);
  { const Waiting brief("compiling x", terminal.get(), std::chrono::hours(1)); }
  set_log_level(LogLevel::error);
  {
    const Waiting silent("compiling x", terminal.get(), std::chrono::milliseconds(0));
    EXPECT_FALSE(has_something(20));
  }
  set_log_level(LogLevel::warn);
  set_log_sink([](LogLevel, std::string_view) {});
  {
    const Waiting hosted("compiling x", terminal.get(), std::chrono::milliseconds(0));
    EXPECT_FALSE(has_something(20));
  }
  set_log_sink({});
  set_log_level(level);
  EXPECT_FALSE(has_something(0));
}

}  // namespace
}  // namespace tilesmith
