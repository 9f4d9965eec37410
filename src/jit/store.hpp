// The content-addressed store of compiled kernels: a directory that several processes use at once and that survives
// their deaths.
//
//   v1/entries/KEY      one directory an entry (jit/entry.hpp), complete from the moment it is visible
//   v1/locks/KEY        locked while the key is compiled, never deleted
//   v1/building/...     entries on their way in or out, each locked by its process; swept when that is gone
//   v1/quarantine/...   entries that were not as they were written, kept for a look until the next prune
//   v1/counts           what all processes did to have their kernels (jit/kept_counts.hpp)
//
// A store that cannot be used (no home, read-only, full, an untrusted default location) never stops work: what is
// compiled then lives in a private directory until the process ends, and one warning says so.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/fork.hpp"
#include "base/lock.hpp"
#include "jit/entry.hpp"
#include "jit/private_directory.hpp"

namespace tilesmith {

struct StoreStats {
  std::uint64_t entries = 0;  ///< kernels and remembered failures of this version
  std::uint64_t failures = 0;
  std::uint64_t bytes = 0;  ///< of all files of these entries; a file that several entries share counts once
  std::uint64_t other_version_entries = 0;  ///< written by another version of the program, which may still use them
  std::uint64_t other_version_bytes = 0;
  std::uint64_t quarantined = 0;
  std::uint64_t in_progress = 0;
};

struct StoreVerdict {
  std::uint64_t checked = 0;                ///< entries of this version
  std::uint64_t other_version_entries = 0;  ///< left alone: what is right for them only their version knows
  std::vector<Error> corrupt;  ///< one for each damaged entry; it is in quarantine now, unless the store is read only
};

/// What prune does with entries that another version of the program wrote.
enum class OtherVersions : std::uint8_t { keep, remove };

struct PruneResult {
  std::uint64_t removed = 0;
  StoreStats left;
};

class Store {
 public:
  /// The user's store (base/env.hpp says where). An untrusted directory that TILESMITH_CACHE_DIR names is an error,
  /// because the user chose it; every other obstacle leads to a store that forgets.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open();
  /// The store in `directory`, created when missing; an error when others can write to it.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const std::filesystem::path& directory);

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Where entries are kept for the next process; empty when nowhere.
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  /// Whether entries can be added and removed there.
  [[nodiscard]] bool writable() const { return writable_; }

  /// A verified binary, nothing when it is to be compiled, or the error with which compiling it failed within the last
  /// hour.
  [[nodiscard]] Result<std::optional<Binary>> find(const EntryKey& key);

  /// Adds a binary and says where it is now: another process's, when that was faster; a private file's, when the store
  /// cannot take it.
  [[nodiscard]] Result<Binary> publish(const EntryKey& key, const Source& source, const EntryContent& content);
  /// Remembers that the compiler refuses this source.
  void publish_failure(const EntryKey& key, const Source& source, const Error& failure);

  /// Waits, for at most `bound`, until no other process compiles this key. Any failure but `cancelled` means: go on
  /// without.
  [[nodiscard]] Result<FileLock> lock(const EntryKey& key, std::chrono::milliseconds bound,
                                      const std::stop_token& stop);

  /// A private directory on the store's own file system.
  [[nodiscard]] Result<PrivateDirectory> private_directory();

  [[nodiscard]] Result<StoreStats> stats() const;
  /// Every whole entry of the root, remembered failures included, by arch and name. What is damaged is left out: verify
  /// tells about it.
  [[nodiscard]] std::vector<StoredEntry> entries() const;
  /// Reads every entry; what is corrupt goes to quarantine. Entries of another version are counted and left alone.
  [[nodiscard]] Result<StoreVerdict> verify();
  /// Removes the quarantine and then the entries unused for longest until at most `max_bytes` are left. Loaded kernels
  /// are not disturbed. Entries of another version neither count nor go, except all of them with `remove`.
  [[nodiscard]] Result<PruneResult> prune(std::uint64_t max_bytes, OtherVersions others = OtherVersions::keep);

  /// Entries this process found corrupt.
  [[nodiscard]] std::uint64_t corrupt_count() const { return corrupt_.load(std::memory_order_relaxed); }

 private:
  Store() = default;

  [[nodiscard]] Status prepare(const std::filesystem::path& directory);
  [[nodiscard]] std::filesystem::path entry_path(const EntryKey& key) const {
    return root_ / "v1/entries" / key.digest;
  }
  [[nodiscard]] Result<Binary> publish_to_root(const EntryKey& key, const Source& source, const EntryContent& content);
  [[nodiscard]] Result<Binary> publish_to_scratch(const EntryKey& key, const Source& source,
                                                  const EntryContent& content);
  [[nodiscard]] Result<std::filesystem::path> scratch();
  void begin_anew();
  [[nodiscard]] Status discard(const std::filesystem::path& entry);
  void quarantine(const std::filesystem::path& entry, const Error& reason);

  std::filesystem::path root_;
  bool writable_ = false;
  std::atomic<std::uint64_t> corrupt_{0};
  std::mutex scratch_mutex_;
  std::optional<PrivateDirectory> scratch_;  ///< what the root could not take, until this process ends
  std::filesystem::path of_parent_;  ///< in a forked child: its parent's scratch, to read from while it is there
  AtFork at_fork_{this, [](void* store) { static_cast<Store*>(store)->begin_anew(); }};
};

}  // namespace tilesmith
