#include "base/subprocess.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/end_of_work.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// How often a wait looks at things that cannot wake it: a request to stop, and the program's end where there are no
/// process descriptors.
constexpr auto kGlance = std::chrono::milliseconds(20);

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(system_error("cannot make", "a pipe", errno));
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  // In a process that was started without standard streams a pipe may get their numbers, which the child is about to
  // replace.
  for (FileDescriptor* end : {&pipe.read_end, &pipe.write_end}) {
    if (end->get() > STDERR_FILENO) continue;
    *end = FileDescriptor(::fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!*end) return std::unexpected(system_error("cannot make", "a pipe", errno));
  }
  // Only our end: a program may not expect that its own output refuses to wait.
  if (::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK) != 0)
    return std::unexpected(system_error("cannot set up", "a pipe", errno));
  return pipe;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// The portable wheel is built for glibc 2.28 (tools/make_wheel.sh): addchdir_np came with 2.29, addclosefrom_np
// with 2.34.
#if __GLIBC_PREREQ(2, 34)
int close_others(posix_spawn_file_actions_t& actions) {
  return ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
}

int start_in(posix_spawn_file_actions_t& actions, std::vector<std::string>&, const std::filesystem::path& directory) {
  return ::posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
}
#else
/// Closes the descriptors of this moment: one that another thread opens meanwhile without O_CLOEXEC is inherited.
int close_others(posix_spawn_file_actions_t& actions) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (descriptor <= STDERR_FILENO) continue;
    if (const int status = ::posix_spawn_file_actions_addclose(&actions, descriptor); status != 0) return status;
  }
  return error ? error.value() : 0;
}

/// By env of coreutils (8.28 and newer, older than this glibc), which changes the directory and becomes the program.
int start_in(posix_spawn_file_actions_t&, std::vector<std::string>& words, const std::filesystem::path& directory) {
  // env reports these two by its exit code, which callers would take for the program's.
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return error ? error.value() : ENOTDIR;
  if (::access(words[0].c_str(), X_OK) != 0) return errno;
  words.insert(words.begin(), {"/usr/bin/env", "-C", directory.string(), "--"});
  return 0;
}
#endif

/// posix_spawn and not fork: it does not copy this process's page tables, which a program with large tensors would
/// feel, and is safe in a program with threads. The child keeps descriptors 0 to 2 alone and default signal handling. A
/// descriptor that is not given is /dev/null. It joins the process group `group`; 0: it leads one of its own.
Result<pid_t> spawn(const Command& command, const FileDescriptor& input, const FileDescriptor& output,
                    const FileDescriptor& errors, pid_t group) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = ::posix_spawn_file_actions_init(&actions);
  if (error != 0) return std::unexpected(system_error("cannot start", command.arguments[0], error));
  error = ::posix_spawnattr_init(&attributes);
  if (error != 0) {
    ::posix_spawn_file_actions_destroy(&actions);
    return std::unexpected(system_error("cannot start", command.arguments[0], error));
  }
  const auto set = [&error](int status) {
    if (error == 0) error = status;
  };
  const auto redirect = [&](const FileDescriptor& from, int to) {
    set(from ? ::posix_spawn_file_actions_adddup2(&actions, from.get(), to)
             : ::posix_spawn_file_actions_addopen(&actions, to, "/dev/null", to == STDIN_FILENO ? O_RDONLY : O_WRONLY,
                                                  0));
  };
  redirect(input, STDIN_FILENO);
  redirect(output, STDOUT_FILENO);
  redirect(errors, STDERR_FILENO);
  std::vector<std::string> words = command.arguments;
  set(close_others(actions));
  if (!command.directory.empty()) set(start_in(actions, words, command.directory));
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  set(::posix_spawnattr_setsigmask(&attributes, &none));
  set(::posix_spawnattr_setsigdefault(&attributes, &all));
  set(::posix_spawnattr_setpgroup(&attributes, group));
  set(::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  pid_t child = -1;
  if (error == 0) {
    const std::vector<char*> arguments = pointers(words);
    const std::vector<char*> variables =
        command.environment ? pointers(*command.environment) : std::vector<char*>{nullptr};
    char** environment = command.environment ? const_cast<char**>(variables.data()) : environ;
    error = ::posix_spawn(&child, words[0].c_str(), &actions, &attributes, arguments.data(), environment);
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::unexpected(system_error("cannot start", command.arguments[0], error));
  return child;
}

/// Set from outside, an instant after the start: posix_spawn cannot set limits itself. What the program starts later
/// inherits them.
void limit(pid_t child, std::uint64_t memory_bytes) {
  const rlimit no_core{0, 0};
  ::prlimit(child, RLIMIT_CORE, &no_core, nullptr);
  if (memory_bytes == 0) return;
  const rlimit memory{memory_bytes, memory_bytes};
  ::prlimit(child, RLIMIT_AS, &memory, nullptr);
}

/// Takes what a pipe holds now; false at its end. A writer that never pauses does not keep us here: the deadline is to
/// be looked at.
bool drain(int fd, HeadAndTail& into) {
  std::array<char, 16384> buffer;
  for (int round = 0; round < 64; ++round) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0)
      into.append({buffer.data(), static_cast<std::size_t>(got)});
    else if (got < 0 && errno == EINTR)
      continue;
    else
      return got < 0 && errno == EAGAIN;
  }
  return true;
}

/// A started process and its group. A group's leader is reaped exactly once, and only after the group was killed: until
/// then the number cannot be another's.
class Child {
 public:
  Child(pid_t pid, pid_t group)
      : pid_(pid), group_(group), descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!reaped_) kill_and_reap();
  }

  /// Becomes readable when the process ends; -1 where the system has no process descriptors (before Linux 5.3).
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  [[nodiscard]] bool ended() const { return state() != State::running; }

  /// The wait status, after killing whatever the group still runs. Nothing when the host program reaps all children
  /// behind our back (SIGCHLD ignored, or somebody waits for any child): then how it ended cannot be known, and its
  /// number must not be used any more.
  std::optional<int> kill_and_reap() {
    reaped_ = true;
    if (state() == State::gone) return std::nullopt;
    ::kill(-group_, SIGKILL);
    int status = 0;
    pid_t waited = 0;
    do waited = ::waitpid(pid_, &status, 0);
    while (waited < 0 && errno == EINTR);
    return waited == pid_ ? std::optional(status) : std::nullopt;
  }

 private:
  enum class State : std::uint8_t { running, ended, gone };

  [[nodiscard]] State state() const {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
      return errno == ECHILD ? State::gone : State::running;
    return info.si_pid == pid_ ? State::ended : State::running;
  }

  pid_t pid_;
  pid_t group_;
  FileDescriptor descriptor_;
  bool reaped_ = false;
};

/// Kills a process group when this process dies, however it dies. The kernel's own notice of a parent's death
/// (PR_SET_PDEATHSIG) reaches one process and not the children that a compiler's driver starts; a shell that waits for
/// the end of a pipe, whose other end dies with us, can kill them all. The shell leads the group that the program joins
/// at its start, so that there is no moment when the program runs and the shell does not know it. Where there is no
/// shell, there is no watch.
class Watchdog {
 public:
  Watchdog() {
    auto pipe = make_pipe();
    if (!pipe || ::fcntl(pipe->read_end.get(), F_SETFL, 0) != 0) return;
    Command command{.arguments = {"/bin/sh", "-c", "read -r end; kill -s KILL -- \"-$$\""}};
    command.environment.emplace();
    const auto pid = spawn(command, pipe->read_end, {}, {}, 0);
    if (!pid) return;
    pipe_ = std::move(pipe->write_end);
    shell_.emplace(*pid, *pid);
    group_ = *pid;
  }

  /// The group whose processes die with us; 0: there is none.
  [[nodiscard]] pid_t group() const { return group_; }

 private:
  FileDescriptor pipe_;  ///< closed after the shell was killed
  std::optional<Child> shell_;
  pid_t group_ = 0;
  /// A child that another thread forks meanwhile would keep the pipe open beyond our death.
  AtFork at_fork_{this, [](void* self) { static_cast<Watchdog*>(self)->pipe_.reset(); }};
};

}  // namespace

std::string ProcessOutcome::describe() const {
  switch (end) {
    case End::exited:
      return fmt::format("ended with status {}", code);
    case End::signalled:
      return fmt::format("was killed by signal {} ({})", code, ::strsignal(code));
    case End::timed_out:
      return fmt::format("did not end within {:.1f} s", static_cast<double>(elapsed.count()) / 1000);
    case End::cancelled:
      return "was cancelled";
  }
  return {};
}

Result<ProcessOutcome> run_process(const Command& command) {
  if (command.arguments.empty() || command.arguments[0].find('/') == std::string::npos)
    return fail(ErrorCode::invalid_argument, "a command needs the path of its program");
  const RunningProgram counted;
  if (work_has_ended()) return ProcessOutcome{.end = ProcessOutcome::End::cancelled, .output = {}, .errors = {}};
  TS_ASSIGN(Pipe output, make_pipe());
  TS_ASSIGN(Pipe errors, make_pipe());
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + command.time_limit;
  Watchdog watchdog;
  pid_t group = watchdog.group();
  auto pid = spawn(command, {}, output.write_end, errors.write_end, group);
  if (!pid && group != 0) {
    // The host program took our shell's status, and with it the group.
    group = 0;
    pid = spawn(command, {}, output.write_end, errors.write_end, group);
  }
  if (!pid) return std::unexpected(std::move(pid.error()));
  Child child(*pid, group == 0 ? *pid : group);
  limit(*pid, command.memory_limit_bytes);
  output.write_end.reset();
  errors.write_end.reset();

  HeadAndTail said(command.kept_bytes), complained(command.kept_bytes);
  ProcessOutcome outcome;
  std::array<pollfd, 3> watched = {pollfd{output.read_end.get(), POLLIN, 0}, pollfd{errors.read_end.get(), POLLIN, 0},
                                   pollfd{child.descriptor(), POLLIN, 0}};
  // Ends with the program, not with its pipes: a grandchild may hold those open for ever.
  while (!child.ended()) {
    if (command.stop.stop_requested() || work_has_ended()) {
      outcome.end = ProcessOutcome::End::cancelled;
      break;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      outcome.end = ProcessOutcome::End::timed_out;
      break;
    }
    const auto wait = std::min<std::chrono::milliseconds>(left, kGlance);
    if (::poll(watched.data(), watched.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
      return std::unexpected(system_error("cannot watch", command.arguments[0], errno));
    // A negative descriptor is skipped by poll: so is a pipe once it has ended.
    if (watched[0].revents != 0 && !drain(output.read_end.get(), said)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !drain(errors.read_end.get(), complained)) watched[1].fd = -1;
  }
  const std::optional<int> reaped = child.kill_and_reap();
  static_cast<void>(drain(output.read_end.get(), said));
  static_cast<void>(drain(errors.read_end.get(), complained));

  outcome.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  outcome.output = said.text();
  outcome.errors = complained.text();
  if (outcome.end != ProcessOutcome::End::exited) return outcome;
  if (!reaped)
    return fail(
        ErrorCode::io,
        fmt::format("cannot learn how {} ended: something else in this process took its status", command.arguments[0]),
        "do not ignore SIGCHLD and do not wait for any child");
  if (WIFSIGNALED(*reaped)) outcome.end = ProcessOutcome::End::signalled;
  outcome.code = WIFSIGNALED(*reaped) ? WTERMSIG(*reaped) : WEXITSTATUS(*reaped);
  return outcome;
}

Result<fs::path> find_program(const std::string& name) {
  const auto executable = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (executable(name)) return fs::path(name);
    return fail(ErrorCode::not_found, fmt::format("{} is not an executable file", name));
  }
  const std::string path = env("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (std::size_t begin = 0; begin <= path.size() && !name.empty();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path folder = path.substr(begin, end - begin);
    // Relative entries (and the empty one, which means the working directory) are where planted programs lie.
    if (folder.is_absolute() && executable(folder / name)) return folder / name;
    begin = end + 1;
  }
  return fail(ErrorCode::not_found, fmt::format("no program '{}' in PATH", name));
}

void HeadAndTail::append(std::string_view text) {
  if (head_.size() < limit_) {
    const std::size_t taken = std::min(limit_ - head_.size(), text.size());
    head_ += text.substr(0, taken);
    text.remove_prefix(taken);
  }
  if (text.size() > limit_) {
    dropped_ += text.size() - limit_;
    text.remove_prefix(text.size() - limit_);
  }
  tail_ += text;
  if (tail_.size() > 2 * limit_) {
    dropped_ += tail_.size() - limit_;
    tail_.erase(0, tail_.size() - limit_);
  }
}

std::string HeadAndTail::text() const {
  const std::size_t excess = tail_.size() > limit_ ? tail_.size() - limit_ : 0;
  if (dropped_ + excess == 0) return head_ + tail_;
  return fmt::format("{}\n[{} bytes left out]\n{}", head_, dropped_ + excess, std::string_view(tail_).substr(excess));
}

}  // namespace tilesmith
