// Says on standard error how far a long piece of work is: one line rewritten in place on a terminal, otherwise a line
// every ten seconds, so that a log stays short and ten silent minutes never look like a hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tilesmith {

class Progress {
 public:
  /// `what` is the work ("compiling"); `fd` is where it is said.
  Progress(std::string what, std::uint64_t total, int fd = 2);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Says how it ended.
  ~Progress();

  /// `done` of the total, with a short remark ("3 failed"). Any thread may call it.
  void update(std::uint64_t done, std::string_view remark = {});

 private:
  void say(bool last);

  const std::string what_;
  const std::uint64_t total_;
  const int fd_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point said_;
  std::uint64_t done_ = 0;
  std::string remark_;
};

/// Says on a terminal what is waited for and how long already, once that takes longer than `patience`; the line is
/// erased at the end. Nothing is said to anything but a terminal, nor where the log is silent (TILESMITH_LOG=off,
/// error), says such things itself (info, debug) or goes to a host program.
class Waiting {
 public:
  explicit Waiting(std::string what, int fd = 2, std::chrono::milliseconds patience = std::chrono::milliseconds(500));
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();

 private:
  void say_from_time_to_time();

  const std::string what_;
  const int fd_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tilesmith
