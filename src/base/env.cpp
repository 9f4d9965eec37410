#include "base/env.hpp"
#include "base/lasting.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace tilesmith {
namespace {

constexpr int kMostWorkers = 1024;

/// A variable whose value is one of these words.
struct WordVariable {
  const char* name;
  std::vector<std::string> words;
};

const std::vector<WordVariable>& word_variables() {
  static const auto& variables = lasting(std::vector<WordVariable>{
      {"TILESMITH_LOG", {"off", "error", "warn", "info", "debug"}},
      {"TILESMITH_BUILD", {"now", "never"}},
      {"TILESMITH_DETERMINISM", {"bitwise", "tolerant"}},
  });
  return variables;
}

}  // namespace

std::optional<std::string> env(const char* name) {
  const char* value = ::secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Result<CacheDirectory> cache_directory() {
  if (auto chosen = env("TILESMITH_CACHE_DIR")) {
    std::error_code
        ignored;  // only a process without a working directory fails here, and then the path is kept as given
    const std::filesystem::path absolute = std::filesystem::absolute(*chosen, ignored);
    return CacheDirectory{absolute.empty() ? std::filesystem::path(*chosen) : absolute, CacheOrigin::variable};
  }
  // The XDG base directory specification: a relative value is invalid and to be ignored.
  if (auto cache = env("XDG_CACHE_HOME"); cache && cache->front() == '/')
    return CacheDirectory{std::filesystem::path(*cache) / "tilesmith", CacheOrigin::default_location};
  if (auto home = env("HOME"); home && home->front() == '/')
    return CacheDirectory{std::filesystem::path(*home) / ".cache" / "tilesmith", CacheOrigin::default_location};
  return fail(ErrorCode::not_found, "no place for the store: neither XDG_CACHE_HOME nor HOME names a directory",
              "set TILESMITH_CACHE_DIR to a directory that only you can write to");
}

std::optional<std::filesystem::path> spec_directory() {
  if (auto chosen = env("TILESMITH_SPEC_DIR")) return std::filesystem::path(*chosen);
  return std::nullopt;
}

int usable_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  const int count = CPU_COUNT(&mask);
  return count > 0 ? count : 1;
}

Result<int> worker_count() {
  const auto text = env("TILESMITH_WORKERS");
  if (!text) return usable_processors();
  int count = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, count);
  if (error != std::errc{} || stop != end || count < 1 || count > kMostWorkers)
    return fail(ErrorCode::invalid_argument, fmt::format("TILESMITH_WORKERS is '{}'", *text),
                fmt::format("a number from 1 to {}", kMostWorkers));
  return count;
}

Result<std::optional<std::string>> env_word(std::string_view name) {
  for (const WordVariable& variable : word_variables()) {
    if (variable.name != name) continue;
    std::optional<std::string> text = env(variable.name);
    if (text && std::ranges::find(variable.words, *text) == variable.words.end())
      return fail(ErrorCode::invalid_argument, fmt::format("{} is '{}'", name, text->substr(0, 64)),
                  fmt::format("{}", fmt::join(variable.words, ", ")));
    return text;
  }
  return fail(ErrorCode::internal, fmt::format("{} has no list of words", name));
}

bool building_is_off() {
  return env("TILESMITH_BUILD") == "never";
}

Status check_environment() {
  for (const WordVariable& variable : word_variables()) TS_TRY(env_word(variable.name));
  TS_TRY(worker_count());
  return {};
}

}  // namespace tilesmith
