#include "jit/kept_counts.hpp"

#include <fmt/core.h>

#include <chrono>
#include <ctime>
#include <mutex>
#include <string>

#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/json.hpp"
#include "base/lock.hpp"
#include "base/log.hpp"
#include "jit/counters.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr std::uint64_t kLargestCounts = 4096;
constexpr std::chrono::milliseconds kLockWait{200};
constexpr std::chrono::seconds kSeldom{60};

struct Field {
  const char* name;
  std::uint64_t BuildCounts::*kept;
  std::atomic<std::uint64_t> BuildCounters::*counted;
};
constexpr Field kFields[] = {
    {"hits", &BuildCounts::hits, &BuildCounters::hits},
    {"misses", &BuildCounts::misses, &BuildCounters::misses},
    {"builds", &BuildCounts::builds, &BuildCounters::builds},
    {"failed_builds", &BuildCounts::failed_builds, &BuildCounters::failed_builds},
    {"fallbacks", &BuildCounts::fallbacks, &BuildCounters::fallbacks},
    {"build_ns", &BuildCounts::build_ns, &BuildCounters::build_ns},
};

fs::path file_of(const fs::path& root) {
  return root / "v1/counts";
}

BuildCounts counted_so_far() {
  BuildCounts counts;
  for (const Field& field : kFields)
    counts.*field.kept = (build_counters().*field.counted).load(std::memory_order_relaxed);
  return counts;
}

/// What this process has added, and where it adds the rest when it ends.
class OfThisProcess {
 public:
  void keep(const fs::path& root, KeepCounts when) {
    const std::lock_guard guard(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const bool first = root_.empty();
    root_ = root;
    if (when == KeepCounts::seldom && !first && now - last_ < kSeldom) return;
    last_ = now;
    // A process that has only begun to find kernels adds them with its next ones, or at its end.
    if (when == KeepCounts::now || !first) add();
  }

  void keep_the_rest() {
    const std::lock_guard guard(mutex_);
    if (!root_.empty()) add();
  }

 private:
  void add() {
    const BuildCounts counted = counted_so_far();
    BuildCounts more;
    bool any = false;
    for (const Field& field : kFields) {
      more.*field.kept = counted.*field.kept - added_.*field.kept;
      any = any || more.*field.kept > 0;
    }
    if (any && add_counts(root_, more)) added_ = counted;
  }

  /// A forked child adds what it counts itself: the rest is its parent's.
  void begin_anew() {
    renew(mutex_);
    added_ = counted_so_far();
  }

  std::mutex mutex_;
  fs::path root_;
  std::chrono::steady_clock::time_point last_;
  BuildCounts added_;
  AtFork at_fork_{this, [](void* counts) { static_cast<OfThisProcess*>(counts)->begin_anew(); }};
};

// Made before anything is counted, so that a forked child knows what its parent has counted.
OfThisProcess& of_this_process = *new OfThisProcess;

// Behind the destructors of the program's static objects, and in a library that is unloaded.
[[gnu::destructor]] void at_the_end() {
  of_this_process.keep_the_rest();
}

}  // namespace

Result<BuildCounts> read_counts(const fs::path& root) {
  const fs::path path = file_of(root);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return BuildCounts{};
  TS_ASSIGN(const std::string text, read_regular_file(path, kLargestCounts));
  const auto damaged = [&] {
    return fail(ErrorCode::corrupt, fmt::format("{} does not hold counts", path.string()),
                "remove it: counting begins anew");
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return damaged();
  BuildCounts counts;
  const auto read = [&](const char* name, auto& value) {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_number_unsigned()) return false;
    value = at->get<std::remove_reference_t<decltype(value)>>();
    return true;
  };
  for (const Field& field : kFields)
    if (!read(field.name, counts.*field.kept)) return damaged();
  if (!read("since", counts.since)) return damaged();
  return counts;
}

Status add_counts(const fs::path& root, const BuildCounts& more) {
  TS_ASSIGN(const FileLock lock, FileLock::acquire(root / "v1/locks/counts", kLockWait));
  auto kept = read_counts(root);
  if (!kept && kept.error().code != ErrorCode::corrupt) return std::unexpected(std::move(kept.error()));
  if (!kept) log_debug("{}", kept.error().text());
  BuildCounts sum = kept ? *kept : BuildCounts{};
  if (sum.since == 0) sum.since = std::time(nullptr);
  nlohmann::json json = {{"since", static_cast<std::uint64_t>(sum.since)}};
  for (const Field& field : kFields) json[field.name] = sum.*field.kept + more.*field.kept;
  return write_file_atomic(file_of(root), json.dump() + "\n");
}

void keep_counts(const fs::path& root, KeepCounts when) {
  of_this_process.keep(root, when);
}

}  // namespace tilesmith
