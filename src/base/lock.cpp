#include "base/lock.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "base/log.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortestNap{1};
constexpr milliseconds kLongestNap{50};
constexpr std::chrono::seconds kSayWhoHoldsIt{10};

/// The process id that the holder wrote, for messages: "process 4711".
std::string holder(int fd) {
  std::array<char, 24> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string_view digits(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  return digits.empty() ? "another process" : fmt::format("process {}", digits);
}

void leave_name(int fd) {
  const std::string text = fmt::format("{}\n", ::getpid());
  // Only for messages: a full disk does not make the lock worse.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const auto written = ::pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

Result<FileLock> FileLock::acquire(const fs::path& path, milliseconds bound, const std::stop_token& stop) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    Error error = system_error("cannot open the lock", path, errno);
    error.code = ErrorCode::unsupported;
    return std::unexpected(std::move(error));
  }
  const Clock::time_point start = Clock::now();
  Clock::time_point next_message = start + kSayWhoHoldsIt;
  milliseconds nap = kShortestNap;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      Error error = system_error("cannot lock", path, errno);
      error.code = ErrorCode::unsupported;
      return std::unexpected(std::move(error));
    }
    if (stop.stop_requested())
      return fail(ErrorCode::cancelled, fmt::format("cancelled while waiting for {}", path.string()));
    const Clock::time_point now = Clock::now();
    if (now >= start + bound)
      return fail(ErrorCode::busy, fmt::format("{} is held by {}", path.string(), holder(file.get())));
    if (now >= next_message) {
      log_info("waiting for {}, held by {}, for {} s", path.string(), holder(file.get()),
               std::chrono::duration_cast<std::chrono::seconds>(now - start).count());
      next_message = now + kSayWhoHoldsIt;
    }
    std::this_thread::sleep_for(std::min(nap, std::chrono::ceil<milliseconds>(start + bound - now)));
    nap = std::min(2 * nap, kLongestNap);
  }
  leave_name(file.get());
  return FileLock(std::move(file));
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    file_ = std::move(other.file_);
  }
  return *this;
}

void FileLock::release() {
  // Unlocked by name and not only closed: a process forked meanwhile shares the open file and would keep the lock
  // alive.
  if (file_) ::flock(file_.get(), LOCK_UN);
  file_.reset();
}

}  // namespace tilesmith
