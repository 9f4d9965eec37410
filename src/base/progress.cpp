#include "base/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <utility>

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

}  // namespace tilesmith
