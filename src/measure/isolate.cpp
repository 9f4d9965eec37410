#include "measure/isolate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <vector>

namespace tilesmith {
namespace {

using Clock = std::chrono::steady_clock;

/// Each message is a length and that many bytes.
struct Header {
  std::uint64_t bytes;
};

bool write_all(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

enum class ReadEnd : std::uint8_t { whole, closed, late, stopped };

ReadEnd read_all(int fd, void* data, std::size_t bytes, Clock::time_point deadline, const std::function<bool()>& stop) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (stop && stop()) return ReadEnd::stopped;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return ReadEnd::late;
    pollfd ready{fd, POLLIN, 0};
    const int polled = ::poll(&ready, 1, static_cast<int>(std::min<long long>(left, 1000)));
    if (polled < 0 && errno != EINTR) return ReadEnd::closed;
    if (polled <= 0) continue;
    const ssize_t got = ::read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ReadEnd::closed;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return ReadEnd::whole;
}

[[noreturn]] void child(int out, std::size_t first, std::size_t count, FunctionRef<std::string(std::size_t)> work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed parent leaves no child behind
  sigset_t none;                       // a program that waits for signals in a thread of its own has blocked them
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, SIG_DFL);
  for (std::size_t item = first; item < count; ++item) {
    std::string payload;
    try {
      payload = work(item);
    } catch (const std::exception&) {
      ::abort();  // as any other crash: the parent records it
    }
    const Header header{payload.size()};
    if (!write_all(out, &header, sizeof header) || !write_all(out, payload.data(), payload.size())) ::_exit(1);
  }
  ::_exit(0);
}

std::string describe(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

int reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Workers that were killed when nothing more was wanted of them. A driver takes a tenth of a second to take back what
/// one of them had: who needs no other worker goes on meanwhile, and the next worker begins when it has what is free.
thread_local std::vector<pid_t> killed;

void reap_killed() {
  for (const pid_t pid : killed) reap(pid);
  killed.clear();
}

}  // namespace

Status run_isolated(std::size_t count, std::chrono::milliseconds limit, FunctionRef<std::string(std::size_t)> work,
                    FunctionRef<bool(const IsolatedResult&)> report, const std::function<bool()>& stop) {
  reap_killed();
  std::size_t next = 0;
  while (next < count) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return fail(ErrorCode::io, fmt::format("no pipe for a worker: {}", std::strerror(errno)));
    const pid_t pid = ::fork();
    if (pid < 0) {
      ::close(ends[0]);
      ::close(ends[1]);
      return fail(ErrorCode::io, fmt::format("no process for a worker: {}", std::strerror(errno)),
                  "a higher process limit, or fewer workers");
    }
    if (pid == 0) {
      ::close(ends[0]);
      child(ends[1], next, count, work);
    }
    ::close(ends[1]);

    bool alive = true;
    while (alive && next < count) {
      const auto deadline = Clock::now() + limit;
      IsolatedResult result{.item = next, .status = IsolatedStatus::done, .payload = {}};
      Header header{};
      ReadEnd end = read_all(ends[0], &header, sizeof header, deadline, stop);
      if (end == ReadEnd::whole) {
        result.payload.resize(header.bytes);
        end = read_all(ends[0], result.payload.data(), header.bytes, deadline, stop);
      }
      if (end == ReadEnd::stopped ||
          (end == ReadEnd::closed && stop && stop())) {  // a terminal's ^C ends the child too
        ::kill(pid, SIGKILL);
        reap(pid);
        ::close(ends[0]);
        return {};
      }
      if (end == ReadEnd::late) {
        ::kill(pid, SIGKILL);
        reap(pid);
        result.status = IsolatedStatus::timed_out;
        result.payload = fmt::format("no result within {} ms", limit.count());
        alive = false;
      } else if (end == ReadEnd::closed) {
        result.status = IsolatedStatus::crashed;
        result.payload = describe(reap(pid));
        alive = false;
      }
      ++next;
      if (!report(result)) {
        if (alive) {
          ::kill(pid, SIGKILL);
          killed.push_back(pid);
        }
        ::close(ends[0]);
        return {};
      }
    }
    ::close(ends[0]);
    if (alive) reap(pid);
  }
  return {};
}

}  // namespace tilesmith
