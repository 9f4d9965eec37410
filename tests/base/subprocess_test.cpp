#include "base/subprocess.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "base/end_of_work.hpp"
#include "base/file.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

Command shell(std::string script) {
  return {.arguments = {"/bin/sh", "-c", std::move(script)}};
}

/// Whether process `pid` exists and is no zombie.
bool lives(const std::string& pid) {
  const auto status = read_file("/proc/" + pid + "/stat");
  if (!status) return false;
  return (*status)[status->rfind(')') + 2] != 'Z';
}

void expect_gone(const std::string& pid) {
  ASSERT_FALSE(pid.empty());
  for (int i = 0; i < 2000 && lives(pid); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(lives(pid)) << "process " << pid;
}

void expect_no_zombie() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not reaped";
}

TEST(Subprocess, SeparatesOutputAndErrorsAndReportsTheStatus) {
  const auto outcome = run_process(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(outcome.has_value()) << outcome.error().text();
  EXPECT_EQ(outcome->end, ProcessOutcome::End::exited);
  EXPECT_EQ(outcome->code, 3);
  EXPECT_EQ(outcome->output, "out\n");
  EXPECT_EQ(outcome->errors, "err\n");
  EXPECT_FALSE(outcome->succeeded());
  EXPECT_EQ(outcome->describe(), "ended with status 3");
  EXPECT_TRUE(run_process(shell("exit 0"))->succeeded());
  expect_no_zombie();
}

TEST(Subprocess, ArgumentsArriveAsTheyAre) {
  const std::vector<std::string> awkward = {"a b", "",  "'\"",    ";$(id)`id`",
                                            "-n",  "*", "\n\t\\", std::string(4096, 'x')};
  Command command{.arguments = {"/usr/bin/printf", "%s|"}};
  std::string expected;
  for (const std::string& argument : awkward) {
    command.arguments.push_back(argument);
    expected += argument + "|";
  }
  EXPECT_EQ(run_process(command)->output, expected);
}

TEST(Subprocess, EnvironmentAndDirectoryAreThoseGiven) {
  auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
  Command command{.arguments = {"/usr/bin/env"}};
  command.environment = {"A=1", "B=two words"};
  EXPECT_EQ(run_process(command)->output, "A=1\nB=two words\n");
  command = shell("pwd -P");
  command.directory = directory.path();
  EXPECT_EQ(run_process(command)->output, fs::canonical(directory.path()).string() + "\n");
}

TEST(Subprocess, StartsWithClosedDescriptorsAndDefaultSignals) {
  const FileDescriptor open(::open("/dev/null", O_RDONLY));  // without close-on-exec, as a careless host opens files
  ASSERT_GE(open.get(), 3);
  ::signal(SIGTERM, SIG_IGN);
  const auto outcome = run_process(shell("ls /proc/self/fd; kill -TERM $$"));
  ::signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(outcome->output, "0\n1\n2\n3\n") << "3 is ls reading the folder";
  EXPECT_EQ(outcome->end, ProcessOutcome::End::signalled);
  EXPECT_EQ(outcome->code, SIGTERM);
  EXPECT_EQ(outcome->describe(), "was killed by signal 15 (Terminated)");
}

TEST(Subprocess, ProgramsThatCannotStartAreErrors) {
  EXPECT_EQ(run_process({.arguments = {"/no/such/program"}}).error().code, ErrorCode::not_found);
  EXPECT_NE(run_process({.arguments = {"/no/such/program"}}).error().message.find("/no/such/program"),
            std::string::npos);
  EXPECT_EQ(run_process({.arguments = {"/etc/passwd"}}).error().code, ErrorCode::io);
  EXPECT_EQ(run_process({.arguments = {"sh", "-c", "true"}}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(run_process({}).error().code, ErrorCode::invalid_argument);
  Command elsewhere = shell("true");
  elsewhere.directory = "/no/such/directory";
  EXPECT_FALSE(run_process(elsewhere).has_value());
  expect_no_zombie();
}

TEST(Subprocess, TimeLimitKillsTheWholeGroup) {
  Command command = shell("sleep 1000 & echo $!; exec sleep 1000");
  command.time_limit = 2s;  // a busy machine may take a while to begin the program
  const auto outcome = run_process(command);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->end, ProcessOutcome::End::timed_out);
  EXPECT_NE(outcome->describe().find("did not end within"), std::string::npos);
  ASSERT_FALSE(outcome->output.empty()) << "what was said before the end is kept";
  expect_gone(outcome->output.substr(0, outcome->output.size() - 1));
  expect_no_zombie();
}

TEST(Subprocess, TimeLimitHoldsAgainstAProgramThatIgnoresSignals) {
  Command command = shell("trap '' TERM INT HUP; while :; do sleep 0.01; done");
  command.time_limit = 100ms;
  EXPECT_EQ(run_process(command)->end, ProcessOutcome::End::timed_out);
}

TEST(Subprocess, TimeLimitHoldsAgainstEndlessOutput) {
  // How much it wrote is the machine's business.
  Command command{.arguments = {"/usr/bin/yes"}};
  command.time_limit = 200ms;
  const auto outcome = run_process(command);
  EXPECT_EQ(outcome->end, ProcessOutcome::End::timed_out);
  EXPECT_LT(outcome->output.size(), 140'000u);
  EXPECT_EQ(outcome->output.size() > 2u * 65536, outcome->output.find("bytes left out]") != std::string::npos);
}

TEST(Subprocess, DoesNotWaitForWhatTheProgramLeavesBehind) {
  const auto outcome = run_process(shell("sleep 1000 & echo $!"));
  ASSERT_TRUE(outcome->succeeded());
  expect_gone(outcome->output.substr(0, outcome->output.size() - 1));
}

TEST(Subprocess, DoesNotWaitForADaemonThatKeepsThePipe) {
  const auto outcome = run_process(shell("setsid sleep 100 & echo $!"));
  EXPECT_TRUE(outcome->succeeded());
  EXPECT_LT(outcome->elapsed, 50s) << "the daemon sleeps 100 s with our pipe open";
  ::kill(std::stoi(outcome->output), SIGKILL);
}

TEST(Subprocess, StopRequestEndsIt) {
  const auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
  const fs::path begun = directory.path() / "begun";
  std::stop_source source;
  Command command = shell("sleep 1000 & echo $!; : >'" + begun.string() + "'; wait");
  command.stop = source.get_token();
  std::jthread stopper([&] {
    while (!fs::exists(begun)) std::this_thread::sleep_for(10ms);
    source.request_stop();
  });
  const auto outcome = run_process(command);
  EXPECT_EQ(outcome->end, ProcessOutcome::End::cancelled);
  expect_gone(outcome->output.substr(0, outcome->output.size() - 1));
  expect_no_zombie();
}

// However the process ends that started them: a killed one can do nothing any more.
TEST(Subprocess, ProgramsDieWithTheirParent) {
  const auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
  const fs::path grandchild = directory.path() / "grandchild";
  const pid_t parent = ::fork();
  if (parent == 0) {
    // A child of its own, forked meanwhile, lives on: it must not be taken for the process.
    std::jthread forker([&] {
      while (!fs::exists(grandchild)) std::this_thread::sleep_for(1ms);
      if (::fork() == 0) {
        for (const int output : {STDOUT_FILENO, STDERR_FILENO})
          ::close(output);  // or who reads the test's waits for it
        ::alarm(60);
        ::pause();
      }
    });
    // From a thread of its own, as builds are: its end is not the process's.
    std::jthread([&] {
      static_cast<void>(run_process(
          shell("trap '' HUP TERM INT; sleep 1000 & echo $! >'" + grandchild.string() + "'; echo >&2; wait")));
    }).join();
    ::_exit(0);
  }
  std::string pid;
  for (int i = 0; i < 2000 && !pid.ends_with('\n'); ++i) {
    std::this_thread::sleep_for(10ms);
    pid = read_file(grandchild).value_or("");
  }
  ASSERT_TRUE(pid.ends_with('\n'));
  ASSERT_TRUE(lives(pid.substr(0, pid.size() - 1)));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  expect_gone(pid.substr(0, pid.size() - 1));
}

TEST(Subprocess, AProgramIsWatchedFromItsFirstMoment) {
  // Whoever starts the program is killed while the start goes on.
  for (int i = 0; i < 20; ++i) {
    const auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
    const fs::path begun = directory.path() / "begun";
    const pid_t parent = ::fork();
    if (parent == 0) {
      static_cast<void>(run_process(shell("echo $$ >'" + begun.string() + "'; exec sleep 1000")));
      ::_exit(0);
    }
    std::string pid;
    for (int look = 0; look < 2'000'000 && !pid.ends_with('\n'); ++look) pid = read_file(begun).value_or("");
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    ASSERT_TRUE(pid.ends_with('\n'));
    expect_gone(pid.substr(0, pid.size() - 1));
  }
}

TEST(Subprocess, WhatComesAndGoesAtTheEndOfWorkIsRemovedToo) {
  const auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
  for (int round = 0; round < 50; ++round) {
    const pid_t child = ::fork();  // work does not begin again
    if (child == 0) {
      std::vector<std::thread> threads(4);
      std::atomic<int> made{0};
      for (std::thread& thread : threads)
        thread = std::thread([&] {
          for (;;) {
            const auto scratch = TemporaryDirectory::create("scratch-", directory.path());
            if (!scratch) continue;
            for (const char* name : {"a", "b", "c"}) static_cast<void>(write_file_atomic(scratch->path() / name, "x"));
            ++made;
          }
        });
      while (made < 8) std::this_thread::yield();
      end_work(10s);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    ASSERT_TRUE(fs::is_empty(directory.path())) << round;
  }
}

TEST(Subprocess, TheEndOfWorkEndsProgramsAndRemovesWhatIsTemporary) {
  const auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
  const pid_t child = ::fork();  // work does not begin again
  if (child == 0) {
    const auto scratch = TemporaryDirectory::create("scratch-", directory.path()).value();
    std::optional<ProcessOutcome::End> end;
    std::jthread waiting(
        [&] { end = run_process(shell(": >'" + (scratch.path() / "begun").string() + "'; sleep 1000"))->end; });
    while (!fs::exists(scratch.path() / "begun")) std::this_thread::sleep_for(1ms);
    end_work(10s);
    waiting.join();
    const bool good = end == ProcessOutcome::End::cancelled && !fs::exists(scratch.path()) &&
                      run_process(shell("exit 0"))->end == ProcessOutcome::End::cancelled &&
                      !TemporaryDirectory::create("late-", directory.path()).has_value();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(run_process(shell("exit 0"))->succeeded()) << "the end was the child's";
}

TEST(Subprocess, KeepsHeadAndTailOfAFlood) {
  // 100 MB through the pipe, in bounded memory.
  const auto outcome =
      run_process(shell("echo first; dd if=/dev/zero bs=1M count=100 2>/dev/null | tr '\\0' x; echo last"));
  ASSERT_TRUE(outcome->succeeded());
  EXPECT_TRUE(outcome->output.starts_with("first\nxxx"));
  EXPECT_TRUE(outcome->output.ends_with("xxxlast\n"));
  EXPECT_LT(outcome->output.size(), 2u * 65536 + 64);
  EXPECT_NE(outcome->output.find(std::to_string(100 * 1048576 + 11 - 2 * 65536) + " bytes left out"),
            std::string::npos);
}

TEST(Subprocess, MemoryLimitStopsAHungryProgram) {
  const std::string hungry = "sleep 0.3; dd if=/dev/zero of=/dev/null bs=512M count=1";
  ASSERT_TRUE(run_process(shell(hungry))->succeeded());
  Command command = shell(hungry);
  command.memory_limit_bytes = 256ull << 20;
  const auto outcome = run_process(command);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_FALSE(outcome->succeeded());
  EXPECT_NE(outcome->errors.find("memory"), std::string::npos) << outcome->errors;
}

TEST(Subprocess, AHostThatIgnoresChildrenGetsAnErrorAndNoHang) {
  ::signal(SIGCHLD, SIG_IGN);
  const auto outcome = run_process(shell("exit 0"));
  ::signal(SIGCHLD, SIG_DFL);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().hint.find("SIGCHLD"), std::string::npos);
}

TEST(Subprocess, ManyAtOnceKeepTheirOutputApart) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([i] {
      for (int round = 0; round < 5; ++round) {
        const auto outcome = run_process(shell("echo " + std::to_string(i) + "; exit " + std::to_string(i)));
        ASSERT_TRUE(outcome.has_value());
        EXPECT_EQ(outcome->output, std::to_string(i) + "\n");
        EXPECT_EQ(outcome->code, i);
      }
    });
}

TEST(Subprocess, FindsProgramsInAbsolutePathEntriesOnly) {
  auto directory = TemporaryDirectory::create("tilesmith-subprocess-test-").value();
  const fs::path program = directory.path() / "tool";
  ASSERT_TRUE(write_new_file(program, "#!/bin/sh\n").has_value());
  const std::string old = ::getenv("PATH");
  ::setenv("PATH", (":.:" + directory.path().string() + ":/usr/bin").c_str(), 1);
  EXPECT_FALSE(find_program("tool").has_value()) << "not executable yet";
  ::chmod(program.c_str(), 0700);
  EXPECT_EQ(find_program("tool"), program);
  const fs::path here = fs::current_path();
  fs::current_path(directory.path());
  ::setenv("PATH", ":.:/usr/bin", 1);
  EXPECT_FALSE(find_program("tool").has_value()) << "never from the working directory";
  fs::current_path(here);
  ::setenv("PATH", old.c_str(), 1);
  EXPECT_EQ(find_program(program.string()), program);
  EXPECT_FALSE(find_program("").has_value());
  EXPECT_EQ(find_program("/no/such/tool").error().code, ErrorCode::not_found);
}

TEST(HeadAndTail, IsTheTextItselfUntilItIsTooLong) {
  for (const std::size_t chunk : {1u, 3u, 7u, 100u}) {
    for (std::size_t size = 0; size < 64; ++size) {
      HeadAndTail kept(10);
      std::string all;
      for (std::size_t i = 0; i < size; ++i) all += static_cast<char>('0' + i % 75);
      for (std::size_t i = 0; i < size; i += chunk) kept.append(std::string_view(all).substr(i, chunk));
      const std::string expected = size <= 20 ? all
                                              : all.substr(0, 10) + "\n[" + std::to_string(size - 20) +
                                                    " bytes left out]\n" + all.substr(size - 10);
      ASSERT_EQ(kept.text(), expected) << size << " in chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace tilesmith
