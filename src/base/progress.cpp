#include "base/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/log.hpp"

namespace tilesmith {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kLogInterval{10};

}  // namespace

Progress::Progress(std::string what, std::uint64_t total, int fd)
    : what_(std::move(what)),
      total_(total),
      fd_(fd),
      terminal_(::isatty(fd) == 1),
      start_(Clock::now()),
      said_(start_) {}

Progress::~Progress() {
  const std::lock_guard guard(mutex_);
  say(true);
}

void Progress::update(std::uint64_t done, std::string_view remark) {
  const std::lock_guard guard(mutex_);
  done_ = done;
  remark_ = remark;
  const auto interval = terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kLogInterval);
  if (const auto now = Clock::now(); now - said_ >= interval) {
    said_ = now;
    say(false);
  }
}

void Progress::say(bool last) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  std::string line = fmt::format("{}: {} of {}", what_, done_, total_);
  if (!remark_.empty()) line += fmt::format(", {}", remark_);
  line += fmt::format(", {:.1f} s", seconds);
  if (!last && done_ > 0 && done_ < total_) {
    const double rest = seconds / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    line += fmt::format(", about {:.0f} s left", rest);
  }
  // Back to the line's start, and what an earlier, longer line left is erased.
  if (terminal_) line = "\r" + line + "\x1b[K";
  if (last || !terminal_) line += '\n';
  [[maybe_unused]] const auto written = ::write(fd_, line.data(), line.size());
}

Waiting::Waiting(std::string what, int fd, std::chrono::milliseconds patience)
    : what_(std::move(what)), fd_(fd), patience_(patience) {
  if (log_level() != LogLevel::warn || ::isatty(fd) != 1 || !log_is_standard_error()) return;
  try {
    thread_ = std::thread([this] { say_from_time_to_time(); });
  } catch (const std::system_error&) {  // there is no room for a thread: nothing is said
  }
}

Waiting::~Waiting() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

void Waiting::say_from_time_to_time() {
  const Clock::time_point start = Clock::now();
  std::unique_lock guard(mutex_);
  if (over_.wait_for(guard, patience_, [this] { return is_over_; })) return;
  std::string line;
  do {
    line = fmt::format("\r{}, {:.1f} s\x1b[K", what_, std::chrono::duration<double>(Clock::now() - start).count());
    [[maybe_unused]] const auto written = ::write(fd_, line.data(), line.size());
  } while (!over_.wait_for(guard, kTerminalInterval, [this] { return is_over_; }));
  line = "\r\x1b[K";
  [[maybe_unused]] const auto written = ::write(fd_, line.data(), line.size());
}

}  // namespace tilesmith
