// Runs another program and comes back with all that can be known about it: how it ended, what it said (the head and the
// tail, however much it was), how long it took. No shell: the program gets an argument vector. It gets its own process
// group, which is killed as a whole when the time limit passes, when somebody asks to stop, when the program ends and
// leaves children behind, and when this process dies.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

struct Command {
  std::vector<std::string> arguments{};  ///< [0] is the program's path; PATH is not searched
  /// "NAME=value" each, nothing else is passed on; absent: this process's.
  std::optional<std::vector<std::string>> environment{};
  std::filesystem::path directory{};  ///< where the program runs; empty: where this process does
  std::chrono::milliseconds time_limit{60'000};
  std::uint64_t memory_limit_bytes = 0;  ///< of address space, for each process of the group; 0: no limit of its own
  std::stop_token stop{};
  std::size_t kept_bytes = std::size_t{64} << 10;  ///< of each output: so many of its head, and of its tail
};

struct ProcessOutcome {
  enum class End : std::uint8_t { exited, signalled, timed_out, cancelled };
  End end = End::exited;
  int code = 0;        ///< exit status, or the signal's number; 0 when it was not left to end
  std::string output;  ///< standard output: its head and tail, with a line between that says how much is left out
  std::string errors;  ///< standard error, likewise
  std::chrono::milliseconds elapsed{0};

  [[nodiscard]] bool succeeded() const { return end == End::exited && code == 0; }
  /// "ended with status 1", "was killed by signal 11 (Segmentation fault)", "did not end within 30.0 s", "was
  /// cancelled".
  [[nodiscard]] std::string describe() const;
};

/// An error only when the program could not be started or watched; every way it can end is an outcome. Nothing of it is
/// left running, except what moved itself out of its process group.
[[nodiscard]] Result<ProcessOutcome> run_process(const Command& command);

/// The path of a program: `name` itself when it holds a slash, else the first executable file of that name in PATH.
[[nodiscard]] Result<std::filesystem::path> find_program(const std::string& name);

/// Text of unknown length in bounded memory: its first and its last bytes.
class HeadAndTail {
 public:
  explicit HeadAndTail(std::size_t bytes_each = std::size_t{64} << 10) : limit_(bytes_each) {}
  void append(std::string_view text);
  [[nodiscard]] std::string text() const;

 private:
  std::size_t limit_;
  std::string head_;
  std::string tail_;  ///< at most twice the limit, cut back to the limit from time to time
  std::uint64_t dropped_ = 0;
};

}  // namespace tilesmith
