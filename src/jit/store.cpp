#include "jit/store.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <utility>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr std::chrono::hours kRememberFailures{1};
constexpr std::chrono::hours kStampInterval{1};
constexpr std::string_view kScratchPrefix = "tilesmith-scratch-";

bool forbids_execution(const fs::path& directory) {
  struct statvfs status {};
  return ::statvfs(directory.c_str(), &status) == 0 && (status.f_flag & ST_NOEXEC) != 0;
}

/// Says when an entry was last used, for prune. Seldom, because it is a write; how wrong a clock may be does not
/// matter.
void stamp(const fs::path& entry) {
  struct stat status {};
  if (::stat(entry.c_str(), &status) != 0) return;
  const auto age = std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(status.st_mtim.tv_sec);
  if (age > kStampInterval || age < -kStampInterval) ::utimensat(AT_FDCWD, entry.c_str(), nullptr, 0);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const fs::path& directory) {
  std::unique_ptr<Store> store(new Store);
  TS_TRY(store->prepare(directory));
  return store;
}

Result<std::unique_ptr<Store>> Store::open() {
  const auto place = cache_directory();
  Error obstacle;
  if (place) {
    auto store = open(place->path);
    if (store) return store;
    obstacle = store.error();
    const bool untrusted = obstacle.code == ErrorCode::invalid_argument;
    if (untrusted && place->origin == CacheOrigin::variable) {
      obstacle.hint += ", or set TILESMITH_CACHE_DIR to a directory that only you can write to";
      return std::unexpected(obstacle.in("TILESMITH_CACHE_DIR"));
    }
  } else {
    obstacle = place.error();
  }
  const std::string remedy =
      obstacle.hint.empty() ? "set TILESMITH_CACHE_DIR to a directory that only you can write to" : obstacle.hint;
  log_once(LogLevel::warn, "store.no_root",
           fmt::format("compiled kernels are not kept for the next run: {} ({})", obstacle.message, remedy));
  return std::unique_ptr<Store>(new Store);
}

Status Store::prepare(const fs::path& directory) {
  std::error_code error;
  const fs::path absolute = fs::absolute(directory, error);
  if (error) return std::unexpected(system_error("cannot resolve", directory, error.value()));
  TS_TRY(make_private_directories(absolute));
  TS_TRY(check_only_ours(absolute));
  if (forbids_execution(absolute))
    return fail(ErrorCode::io, fmt::format("{} is on a file system mounted noexec, from which no kernel can be loaded",
                                           absolute.string()));
  Status writable;
  for (const char* part : {"v1/entries", "v1/locks", "v1/building", "v1/quarantine"}) {
    if (writable) writable = make_private_directories(absolute / part);
    if (writable) TS_TRY(check_only_ours(absolute / part));
  }
  // Root may write where the mode says no, and a read-only mount says no whatever the mode: only a trial tells.
  if (writable) {
    if (const auto trial = PrivateDirectory::create(absolute / "v1/building", "trial-"); !trial)
      writable = std::unexpected(trial.error());
  }
  if (!writable && !fs::is_directory(absolute / "v1/entries", error)) return writable;
  root_ = absolute;
  writable_ = writable.has_value();
  if (!writable_)
    log_once(LogLevel::warn, "store.read_only:" + absolute.string(),
             fmt::format("{} is read only: newly compiled kernels are not kept ({})", absolute.string(),
                         writable.error().message));
  sweep_private_directories(absolute / "v1/building", "");
  return {};
}

Result<std::optional<Binary>> Store::find(const EntryKey& key) {
  std::vector<fs::path> places;
  if (!root_.empty()) places.push_back(entry_path(key));
  {
    const std::lock_guard guard(scratch_mutex_);
    if (scratch_) places.push_back(scratch_->path() / key.digest);
    if (!of_parent_.empty()) places.push_back(of_parent_ / key.digest);
  }
  for (const fs::path& place : places) {
    auto entry = read_entry(place, &key);
    if (!entry) {
      if (entry.error().code == ErrorCode::corrupt) quarantine(place, entry.error());
      continue;
    }
    if (!entry->failure) {
      stamp(place);
      return std::optional(std::move(entry->binary));
    }
    const auto age = std::chrono::system_clock::now() - entry->failed_at;
    if (age >= std::chrono::seconds(-1) && age < kRememberFailures) return std::unexpected(std::move(*entry->failure));
  }
  return std::optional<Binary>();
}

Result<Binary> Store::publish(const EntryKey& key, const Source& source, const EntryContent& content) {
  if (writable_) {
    auto binary = publish_to_root(key, source, content);
    if (binary) return binary;
    log_once(LogLevel::warn, "store.publish:" + root_.string(),
             fmt::format("compiled kernels are not kept for the next run: {}", binary.error().text()));
  }
  return publish_to_scratch(key, source, content);
}

void Store::publish_failure(const EntryKey& key, const Source& source, const Error& failure) {
  if (!writable_) return;
  const auto kept = publish_to_root(key, source, EntryContent{{}, failure.message, failure});
  if (!kept) log_debug("cannot remember a failure: {}", kept.error().text());
}

Result<Binary> Store::publish_to_root(const EntryKey& key, const Source& source, const EntryContent& content) {
  TS_ASSIGN(PrivateDirectory directory, private_directory());
  TS_TRY(write_entry(directory.path(), key, source, content));
  const fs::path target = entry_path(key);
  // Each round something else may stand at the target: a good entry is taken instead of ours, anything else is moved
  // out of the way.
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (::rename(directory.path().c_str(), target.c_str()) == 0) {
      directory.release();
      if (content.failure) return Binary{};
      return Binary{target / "binary", source.entry_symbol, content.binary.size(), sha256(content.binary), false,
                    content.resources};
    }
    const int reason = errno;
    if (reason != ENOTEMPTY && reason != EEXIST && reason != ENOTDIR)
      return std::unexpected(system_error("cannot add", target, reason));
    auto other = read_entry(target, &key);
    if (other && !other->failure) return std::move(other->binary);
    if (!other && other.error().code == ErrorCode::corrupt) {
      quarantine(target, other.error());
    } else if (other) {
      TS_TRY(discard(target));
    }
  }
  return fail(ErrorCode::busy, fmt::format("{} changes all the time", target.string()));
}

Result<Binary> Store::publish_to_scratch(const EntryKey& key, const Source& source, const EntryContent& content) {
  TS_ASSIGN(const fs::path parent, scratch());
  TS_ASSIGN(PrivateDirectory directory, PrivateDirectory::create(parent, "new-"));
  TS_TRY(write_entry(directory.path(), key, source, content));
  const fs::path target = parent / key.digest;
  if (const auto earlier = read_entry(target, &key); !earlier) TS_TRY(remove_tree(target));
  if (::rename(directory.path().c_str(), target.c_str()) == 0)
    directory.release();
  else if (errno != ENOTEMPTY && errno != EEXIST)
    return std::unexpected(system_error("cannot add", target, errno));
  TS_ASSIGN(StoredEntry entry, read_entry(target, &key));
  entry.binary.from_store = false;
  return std::move(entry.binary);
}

/// In a forked child, whose parent may take its scratch directory away at any time.
void Store::begin_anew() {
  const bool changing = renew(scratch_mutex_);
  if (!changing && scratch_) of_parent_ = scratch_->path();
  new (&scratch_) std::optional<PrivateDirectory>;
}

Result<fs::path> Store::scratch() {
  const std::lock_guard guard(scratch_mutex_);
  if (scratch_) return scratch_->path();
  Error last{ErrorCode::io, "no directory for temporary kernels"};
  for (const std::string& place :
       {env("TMPDIR").value_or("/tmp"), std::string("/tmp"), std::string("/dev/shm"), std::string("/var/tmp")}) {
    if (forbids_execution(place)) continue;
    sweep_private_directories(place, kScratchPrefix);
    auto made = PrivateDirectory::create(place, kScratchPrefix);
    if (!made) {
      last = made.error();
      continue;
    }
    scratch_.emplace(std::move(*made));
    return scratch_->path();
  }
  return std::unexpected(last.in("the store cannot be written to, and neither can any temporary directory"));
}

Result<FileLock> Store::lock(const EntryKey& key, std::chrono::milliseconds bound, const std::stop_token& stop) {
  if (!writable_) return fail(ErrorCode::unsupported, "there is no store to lock");
  return FileLock::acquire(root_ / "v1/locks" / key.digest, bound, stop);
}

Result<PrivateDirectory> Store::private_directory() {
  if (writable_) return PrivateDirectory::create(root_ / "v1/building", "");
  TS_ASSIGN(const fs::path parent, scratch());
  return PrivateDirectory::create(parent, "new-");
}

Status Store::discard(const fs::path& entry) {
  // Moved before it is removed, so that no reader sees half of it. Somebody else may have done so.
  TS_ASSIGN(const PrivateDirectory trash, PrivateDirectory::create(root_ / "v1/building", ""));
  if (::rename(entry.c_str(), (trash.path() / "entry").c_str()) != 0 && errno != ENOENT)
    return std::unexpected(system_error("cannot remove", entry, errno));
  return {};
}

void Store::quarantine(const fs::path& entry, const Error& reason) {
  corrupt_.fetch_add(1, std::memory_order_relaxed);
  log_warn("a stored kernel was damaged and is compiled again: {}", reason.message);
  if (!writable_) return;
  const auto place = make_unique_directory(root_ / "v1/quarantine", "");
  if (place && ::rename(entry.c_str(), (*place / entry.filename()).c_str()) == 0) return;
  // On a full disk no directory can be made; then it is only removed.
  if (const Status removed = discard(entry); !removed) log_debug("{}", removed.error().text());
}

}  // namespace tilesmith
