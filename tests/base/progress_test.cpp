#include "base/progress.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/file.hpp"

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

TEST(Progress, OnATerminalRewritesOneLine) {
  const FileDescriptor ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ours || ::grantpt(ours.get()) != 0 || ::unlockpt(ours.get()) != 0) GTEST_SKIP() << "no pseudo terminal here";
  const FileDescriptor terminal(::open(::ptsname(ours.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal);
  {
    Progress progress("building", 10, terminal.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    progress.update(4);
    progress.update(10);
  }
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(::read(ours.get(), said.data(), said.size())));
  EXPECT_TRUE(said.starts_with("\rbuilding: 4 of 10, ")) << said;
  EXPECT_NE(said.find("s left\x1b[K\rbuilding: 10 of 10, "), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("\r\n")) << said;
}

}  // namespace
}  // namespace tilesmith
