#include "base/log.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "base/env.hpp"
#include "base/fork.hpp"

namespace tilesmith {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"off", "error", "warn", "info", "debug"};

void write_line(LogLevel level, std::string_view message) {
  // One write of the whole line, so that lines of several threads and processes do not mix.
  const std::string line = fmt::format("tilesmith: {}: {}\n", kLevelNames[static_cast<std::size_t>(level)], message);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

LogLevel level_from_environment() {
  const auto text = env("TILESMITH_LOG");
  if (!text) return LogLevel::warn;
  for (std::size_t i = 0; i < kLevelNames.size(); ++i)
    if (*text == kLevelNames[i]) return static_cast<LogLevel>(i);
  return LogLevel::warn;  // check_environment() refuses other words, before anything is done
}

std::atomic<LogLevel>& current_level() {
  static std::atomic<LogLevel> level{level_from_environment()};
  return level;
}

struct Sink {
  std::mutex mutex;
  LogSink function;
  std::set<std::string, std::less<>>* said = new std::set<std::string, std::less<>>;
  AtFork at_fork{this, [](void* object) {
                   auto* self = static_cast<Sink*>(object);
                   if (renew(self->mutex)) self->said = new std::set<std::string, std::less<>>;
                 }};
};

Sink& sink() {
  static Sink* instance = new Sink;  // never destroyed: other objects may log while the process ends
  return *instance;
}

void emit(Sink& to, LogLevel level, std::string_view message) {
  if (to.function)
    to.function(level, message);
  else
    write_line(level, message);
}

}  // namespace

LogLevel log_level() {
  return current_level().load(std::memory_order_relaxed);
}

void set_log_level(LogLevel level) {
  current_level().store(level, std::memory_order_relaxed);
}

void set_log_sink(LogSink function) {
  Sink& to = sink();
  const std::lock_guard guard(to.mutex);
  to.function = std::move(function);
}

bool log_is_standard_error() {
  Sink& to = sink();
  const std::lock_guard guard(to.mutex);
  return !to.function;
}

void log_message(LogLevel level, std::string_view message) {
  if (level == LogLevel::off || level > log_level()) return;
  Sink& to = sink();
  const std::lock_guard guard(to.mutex);
  emit(to, level, message);
}

void log_once(LogLevel level, std::string_view key, std::string_view message) {
  if (level == LogLevel::off || level > log_level()) return;
  Sink& to = sink();
  const std::lock_guard guard(to.mutex);
  if (to.said->emplace(key).second) emit(to, level, message);
}

}  // namespace tilesmith
