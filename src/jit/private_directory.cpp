#include "jit/private_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

FileDescriptor open_directory(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

Result<PrivateDirectory> PrivateDirectory::create(const fs::path& parent, std::string_view prefix) {
  // Between its creation and its locking a directory looks like a leftover: then a sweeper may take it, and another one
  // is made.
  for (int attempt = 0; attempt < 100; ++attempt) {
    TS_ASSIGN(TemporaryDirectory directory, TemporaryDirectory::create(prefix, parent));
    FileDescriptor lock = open_directory(directory.path());
    if (!lock && errno == ENOENT) continue;
    if (!lock) return std::unexpected(system_error("cannot open", directory.path(), errno));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) continue;
      // Where nothing can be locked no sweeper can lock either, and leaves the directory alone.
      return PrivateDirectory(std::move(directory), std::move(lock));
    }
    struct stat status {};
    if (::fstat(lock.get(), &status) == 0 && status.st_nlink == 0) continue;
    return PrivateDirectory(std::move(directory), std::move(lock));
  }
  return fail(ErrorCode::busy, "directories in " + parent.string() + " disappear as soon as they are made");
}

std::size_t sweep_private_directories(const fs::path& parent, std::string_view prefix) {
  std::size_t removed = 0;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const FileDescriptor lock = open_directory(entry->path());
    struct stat status {};
    if (!lock || ::fstat(lock.get(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (remove_tree(entry->path())) ++removed;
  }
  return removed;
}

}  // namespace tilesmith
