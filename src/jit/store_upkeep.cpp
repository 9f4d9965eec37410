// The store's housekeeping: counting, checking and forgetting.
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/log.hpp"
#include "jit/store.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

/// Names inside a directory that others may change while it is read.
std::vector<fs::path> list(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  return paths;
}

struct EntrySize {
  fs::path path;
  std::int64_t used = 0;  ///< when, in seconds; only for order
  std::uint64_t bytes =
      0;  ///< a file with several names counts by its share, so that the sum over all entries is what the disk holds
  bool failed = false;
  bool other_version = false;
};

EntrySize measure(const fs::path& path) {
  EntrySize size{.path = path, .failed = true};
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) size.used = status.st_mtim.tv_sec;
  for (const fs::path& file : list(path)) {
    if (::lstat(file.c_str(), &status) != 0) continue;
    size.bytes += static_cast<std::uint64_t>(status.st_size) / std::max<std::uint64_t>(1, status.st_nlink);
    if (file.filename() == "binary") size.failed = false;
  }
  size.other_version = is_of_other_version(path);
  return size;
}

std::vector<EntrySize> measure_all(const fs::path& entries) {
  std::vector<EntrySize> sizes;
  for (const fs::path& path : list(entries)) sizes.push_back(measure(path));
  return sizes;
}

}  // namespace

Result<StoreStats> Store::stats() const {
  StoreStats stats;
  if (root_.empty()) return stats;
  for (const EntrySize& entry : measure_all(root_ / "v1/entries")) {
    if (entry.other_version) {
      ++stats.other_version_entries;
      stats.other_version_bytes += entry.bytes;
      continue;
    }
    ++stats.entries;
    stats.bytes += entry.bytes;
    if (entry.failed) ++stats.failures;
  }
  stats.quarantined = list(root_ / "v1/quarantine").size();
  stats.in_progress = list(root_ / "v1/building").size();
  return stats;
}

std::vector<StoredEntry> Store::entries() const {
  std::vector<StoredEntry> entries;
  if (root_.empty()) return entries;
  for (const fs::path& path : list(root_ / "v1/entries"))
    if (auto entry = read_entry(path, nullptr)) entries.push_back(std::move(*entry));
  std::ranges::sort(entries, {}, [](const StoredEntry& entry) { return std::tie(entry.arch, entry.name); });
  return entries;
}

Result<StoreVerdict> Store::verify() {
  StoreVerdict verdict;
  if (root_.empty()) return verdict;
  for (const fs::path& path : list(root_ / "v1/entries")) {
    auto entry = read_entry(path, nullptr);
    if (!entry && entry.error().code == ErrorCode::unsupported) {
      ++verdict.other_version_entries;
      continue;
    }
    ++verdict.checked;
    if (entry || entry.error().code != ErrorCode::corrupt) continue;
    quarantine(path, entry.error());
    verdict.corrupt.push_back(std::move(entry.error()));
  }
  return verdict;
}

Result<PruneResult> Store::prune(std::uint64_t max_bytes, OtherVersions others) {
  PruneResult result;
  if (root_.empty()) return result;
  if (!writable_) return fail(ErrorCode::io, root_.string() + " is read only");
  sweep_private_directories(root_ / "v1/building", "");
  for (const fs::path& path : list(root_ / "v1/quarantine")) TS_TRY(remove_tree(path));

  std::vector<EntrySize> entries = measure_all(root_ / "v1/entries");
  for (const EntrySize& entry : entries) {
    if (!entry.other_version || others == OtherVersions::keep) continue;
    TS_TRY(discard(entry.path));
    ++result.removed;
  }
  std::erase_if(entries, [](const EntrySize& entry) { return entry.other_version; });
  std::uint64_t bytes = 0;
  for (const EntrySize& entry : entries) bytes += entry.bytes;
  std::ranges::sort(entries, {}, [](const EntrySize& entry) { return std::pair(entry.used, entry.path); });
  for (const EntrySize& entry : entries) {
    if (bytes <= max_bytes) break;
    TS_TRY(discard(entry.path));
    bytes -= entry.bytes;
    ++result.removed;
  }
  TS_ASSIGN(result.left, stats());
  return result;
}

}  // namespace tilesmith
