// The program among faults: signals, files without end, compilers that hang or write what is no kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::run;
using testing::ScopedVariable;

std::string fake(const std::string& name) {
  return std::string(TILESMITH_SOURCE_DIR) + "/tests/jit/fake_compilers/" + name;
}

constexpr const char* kGemm = "run gemm -m 40 -n 48 -k 64 --no-time";

TEST(Faults, FilesWithoutEndAreRefused) {
  for (const char* words :
       {"list --import /dev/zero", "list --arch gfx942 --filter-file /dev/zero", "list /dev/zero --arch gfx942",
        "bench /dev/zero", "bench --shapes /dev/zero", "run --file /dev/zero"}) {
    // Less memory than a reader without a bound would take.
    const ProcessOutcome outcome = testing::run_by("ulimit -v 4000000; exec \"$0\" \"$@\"", words);
    EXPECT_EQ(outcome.end, ProcessOutcome::End::exited) << words;
    EXPECT_NE(outcome.code, 0) << words;
    EXPECT_NE(outcome.errors.find("is larger than"), std::string::npos) << words << ": " << outcome.errors;
  }
}

TEST(Faults, WhatACompilerLeavesInsteadOfAKernelIsNoUsageError) {
  const testing::EmptyStore store;
  // The rest of them: tests/jit/cxx_toolchain_test.cpp.
  for (const char* compiler : {"writes_a_pipe", "writes_a_device", "writes_half"}) {
    const ScopedVariable chosen("TILESMITH_CXX", fake(compiler));
    // The second run finds what the first may have kept.
    for (int repeat = 0; repeat < 2; ++repeat) {
      const ProcessOutcome outcome = run(kGemm);
      EXPECT_EQ(outcome.end, ProcessOutcome::End::exited) << compiler << ": " << outcome.describe();
      EXPECT_LE(outcome.code, 1) << compiler << ": " << outcome.errors;
    }
  }
  const ProcessOutcome healthy = run(std::string(kGemm) + " --verify");
  EXPECT_EQ(healthy.code, 0) << healthy.errors;
  EXPECT_EQ(healthy.errors.find("going on with"), std::string::npos) << "nothing is remembered: " << healthy.errors;
}

/// Processes that work below `place`, by their working directory.
std::vector<std::string> workers_in(const fs::path& place) {
  std::vector<std::string> workers;
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    std::error_code gone;
    const fs::path where = fs::read_symlink(process.path() / "cwd", gone);
    if (!gone && where.string().starts_with(place.string() + "/")) workers.push_back(process.path().filename());
  }
  return workers;
}

/// Starts the program, whose output goes to the file `said`, and sends it a signal once two processes work below
/// `scratch`: a compiler that never ends, and its child. The signal by which it ended; 0 when it exited.
int signal_that_ended(std::vector<const char*> words, const fs::path& scratch, int signal) {
  pid_t pid = 0;
  words.insert(words.begin(), TILESMITH_PROGRAM);
  words.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&quiet, stream, (scratch / "said").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  EXPECT_EQ(::posix_spawn(&pid, words[0], &quiet, nullptr, const_cast<char**>(words.data()), environ), 0);
  ::posix_spawn_file_actions_destroy(&quiet);
  for (int i = 0; i < 3000 && workers_in(scratch).size() < 2; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_GE(workers_in(scratch).size(), 2u) << "the compiler and its child";
  ::kill(pid, signal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Faults, ASignalWhileKernelsCompileIsNoFailureOfTheirs) {
  const testing::EmptyStore store;
  const TemporaryDirectory scratch = TemporaryDirectory::create("tilesmith-cli-test-", "/tmp").value();
  const ScopedVariable compiler("TILESMITH_CXX", fake("sleeps")), place("TMPDIR", scratch.path().string());
  const std::string database = (scratch.path() / "a.db").string(), rows = (scratch.path() / "a.csv").string();
  // Kernels of a problem share calls of the compiler.
  EXPECT_EQ(signal_that_ended({"tune", "gemm", "-m", "3", "-n", "96", "-k", "80", "--threads", "1", "--workers", "1",
                               "--db", database.c_str()},
                              scratch.path(), SIGTERM),
            SIGTERM);
  const ProcessOutcome shown = run("db show --json --db " + database);
  ASSERT_EQ(shown.code, 0) << shown.errors;
  EXPECT_EQ(testing::document(shown)["races"], 0) << "it is raced when tune runs again";
  for (int i = 0; i < 3000 && !workers_in(scratch.path()).empty(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(signal_that_ended({"bench", "-m", "1,3", "-n", "96", "-k", "80", "--threads", "1", "--workers", "1",
                               "--max-kernels", "3", "--csv", rows.c_str()},
                              scratch.path(), SIGINT),
            SIGINT);
  const std::string text = read_file(rows).value_or("");
  EXPECT_EQ(text.find("cancelled"), std::string::npos) << "a resumed sweep would keep the row: " << text;
}

TEST(Faults, SignalsEndTheProgramItsCompilersAndItsScratch) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    const testing::EmptyStore store;
    const TemporaryDirectory scratch = TemporaryDirectory::create("tilesmith-cli-test-", "/tmp").value();
    const ScopedVariable compiler("TILESMITH_CXX", fake("sleeps")), place("TMPDIR", scratch.path().string());
    ASSERT_EQ(
        signal_that_ended({"run", "gemm", "-m", "40", "-n", "48", "-k", "64", "--no-time"}, scratch.path(), signal),
        signal);
    for (int i = 0; i < 3000 && !workers_in(scratch.path()).empty(); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(workers_in(scratch.path()).empty()) << signal;
    const auto left = [&] {
      std::vector<std::string> names;
      for (const auto& entry : fs::directory_iterator(scratch.path()))
        if (entry.path().filename() != "said") names.push_back(entry.path().filename());
      return names;
    };
    if (signal == SIGKILL) {  // the next start sweeps
      EXPECT_FALSE(left().empty());
      const ScopedVariable real("TILESMITH_CXX", "g++");
      static_cast<void>(run(kGemm));
    }
    EXPECT_EQ(left(), std::vector<std::string>{}) << signal;
    EXPECT_EQ(read_file(scratch.path() / "said").value(), "")
        << signal << ": a program that is told to end says nothing";
  }
}

// The limit's signal would end the program without a word.
TEST(Faults, AFileBeyondTheLimitIsAnError) {
  const auto folder = TemporaryDirectory::create("tilesmith-limit-test-").value();
  const ProcessOutcome outcome =
      testing::run_by("ulimit -f 1; exec \"$0\" \"$@\"",
                      "generate --arch gfx942 --op gemm --sample 2 --out " + (folder.path() / "out").string());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.end, ProcessOutcome::End::exited);
  EXPECT_NE(outcome.errors.find("ulimit -f"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace tilesmith
