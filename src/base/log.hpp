// The one way Tilesmith says something unasked. A message below the level (TILESMITH_LOG, default warn) costs one
// relaxed load; the others go, whole lines at a time, to one sink: standard error, or what the host program sets.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace tilesmith {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

[[nodiscard]] LogLevel log_level();
void set_log_level(LogLevel level);

using LogSink = std::function<void(LogLevel, std::string_view message)>;
/// Replaces the sink; an empty one restores standard error. The sink is called with a lock held: it must not log.
void set_log_sink(LogSink sink);
/// Whether messages go to standard error: no host program has set a sink.
[[nodiscard]] bool log_is_standard_error();

void log_message(LogLevel level, std::string_view message);
/// Says something at most once a process for each key.
void log_once(LogLevel level, std::string_view key, std::string_view message);

template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (LogLevel::error <= log_level()) log_message(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (LogLevel::warn <= log_level()) log_message(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (LogLevel::info <= log_level()) log_message(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (LogLevel::debug <= log_level()) log_message(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tilesmith
