#include "cli/signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <thread>

#include "base/end_of_work.hpp"

namespace tilesmith::cli {
namespace {

constexpr std::chrono::milliseconds kLongestEnd{1500};

std::atomic<bool> remembers{false};
std::atomic<int> remembered{0};

[[noreturn]] void die_of_signals(const sigset_t& signals) {
  int signal = 0;
  while (::sigwait(&signals, &signal) != 0 || (remembers && remembered.exchange(signal) == 0)) {
  }
  end_work(kLongestEnd);
  ::signal(signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace

void watch_signals() {
  ::signal(SIGXFSZ, SIG_IGN);  // so that a write beyond ulimit -f fails, with a message, and ends nothing in silence
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) ::sigaddset(&signals, signal);
  }
  sigset_t before;
  if (::pthread_sigmask(SIG_BLOCK, &signals, &before) != 0) return;
  try {
    std::thread([signals] { die_of_signals(signals); }).detach();
  } catch (const std::system_error&) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);  // no thread to be had: signals end the program as they always do
  }
}

void remember_first_signal() {
  remembers = true;
}

int remembered_signal() {
  return remembered;
}

void stay_silent_at_the_end() {
  while (work_has_ended()) ::pause();
}

}  // namespace tilesmith::cli
