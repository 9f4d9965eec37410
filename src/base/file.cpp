#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/end_of_work.hpp"
#include "base/env.hpp"

namespace tilesmith {
namespace fs = std::filesystem;
namespace {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // Up to 256 bytes come whole or not at all; a kernel without the call (before 3.17) leaves the process id, and O_EXCL
  // finds a collision.
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = static_cast<std::uint64_t>(::getpid());
  return bits;
}

/// Pushes a path's components, the first on top, without the empty one that a trailing slash makes.
void push_parts(std::vector<fs::path>& stack, const fs::path& path) {
  const std::size_t bottom = stack.size();
  for (const fs::path& part : path)
    if (!part.empty() && part != ".") stack.push_back(part);
  std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(bottom), stack.end());
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::reset() {
  // close() is not repeated after EINTR: Linux has released the number by then.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

namespace {

/// What would make a system call succeed that failed for `reason`.
std::string remedy_of(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return "a path that exists";
    case ENAMETOOLONG:
      return "a shorter path";
    case ELOOP:
      return "a path whose links end";
    case EISDIR:
      return "a file";
    case EACCES:
    case EPERM:
      return "permission for this user";
    case EROFS:
      return "a file system that can be written";
    case ENOSPC:
    case EDQUOT:
      return "free disk space";
    case ENOMEM:
      return "free memory";
    case EFBIG:
      return "a smaller file, or a higher limit (ulimit -f)";
    case EMFILE:
      return "fewer open files, or a higher limit (ulimit -n)";
    default:
      return {};
  }
}

}  // namespace

Error system_error(std::string_view what, const fs::path& path, int reason) {
  ErrorCode code = ErrorCode::io;
  if (reason == ENOENT || reason == ENOTDIR) code = ErrorCode::not_found;
  if (reason == ENOSPC || reason == EDQUOT || reason == ENOMEM || reason == EFBIG) code = ErrorCode::out_of_memory;
  return {code, fmt::format("{} {}: {}", what, path.string(), std::generic_category().message(reason)),
          remedy_of(reason)};
}

Result<std::string> read_descriptor(int fd, const fs::path& path, std::uint64_t limit) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return std::unexpected(system_error("cannot look at", path, errno));
  if (S_ISDIR(status.st_mode)) return std::unexpected(system_error("cannot read", path, EISDIR));
  const auto too_large = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is larger than {} bytes", path.string(), limit),
                "a smaller file");
  };
  const std::uint64_t announced = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (announced > limit) return too_large();

  // The announced size is only a guess (pipes and /proc announce 0): one byte more is asked for, to see the end without
  // growing.
  std::string content;
  std::uint64_t used = 0;
  std::uint64_t capacity = std::max<std::uint64_t>(announced, 4095) + 1;
  for (;;) {
    content.resize(capacity);
    const ssize_t got = ::read(fd, content.data() + used, capacity - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(system_error("cannot read", path, errno));
    if (got == 0) break;
    used += static_cast<std::uint64_t>(got);
    if (used > limit) return too_large();
    if (used == capacity) capacity *= 2;
  }
  content.resize(used);
  return content;
}

Result<std::string> read_file(const fs::path& path, std::uint64_t limit) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::unexpected(system_error("cannot open", path, errno));
  return read_descriptor(file.get(), path, limit);
}

Result<std::string> read_regular_file(const fs::path& path, std::uint64_t limit) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno != ELOOP) return std::unexpected(system_error("cannot open", path, errno));
  struct stat status {};
  if (file && ::fstat(file.get(), &status) != 0) return std::unexpected(system_error("cannot look at", path, errno));
  if (!file || !S_ISREG(status.st_mode)) return fail(ErrorCode::io, path.string() + " is not a regular file");
  return read_descriptor(file.get(), path, limit);
}

Status write_descriptor(int fd, const fs::path& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::unexpected(system_error("cannot write", path, errno));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status write_new_file(const fs::path& path, std::string_view content, Sync sync) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return std::unexpected(system_error("cannot create", path, errno));
  TS_TRY(write_descriptor(file.get(), path, content));
  if (sync == Sync::yes && ::fsync(file.get()) != 0) return std::unexpected(system_error("cannot sync", path, errno));
  return {};
}

namespace {

/// A file under its temporary name. Gone with this object unless it was published.
class StagedFile {
 public:
  static Result<StagedFile> write(const fs::path& path, std::string_view content) {
    StagedFile staged;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
      staged.target_ = path;
      staged.direct_ = content;
      return staged;
    }
    staged.target_ = fs::weakly_canonical(path, error);
    if (error) staged.target_ = path;
    const fs::path temporary = staged.target_.string() + fmt::format(".{:016x}.tmp", random_bits());
    FileDescriptor file;
    TS_ASSIGN(
        staged.temporary_, create_temporary([&]() -> Result<fs::path> {
          file = FileDescriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
          if (!file) return std::unexpected(system_error("cannot create", temporary, errno));
          return temporary;
        }));
    TS_TRY(write_descriptor(file.get(), temporary, content));
    const mode_t kept = static_cast<mode_t>(status.permissions() & fs::perms::mask);
    if (fs::exists(status) && ::fchmod(file.get(), kept) != 0)
      return std::unexpected(system_error("cannot set the mode of", temporary, errno));
    if (::fsync(file.get()) != 0) return std::unexpected(system_error("cannot sync", temporary, errno));
    return staged;
  }

  StagedFile(StagedFile&& other) noexcept
      : target_(std::move(other.target_)),
        temporary_(std::exchange(other.temporary_, {})),
        direct_(other.direct_),
        published_(std::exchange(other.published_, false)) {}
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile() {
    if (temporary_.empty()) return;
    ::unlink(temporary_.c_str());
    forget_temporary(temporary_);
  }

  /// A pipe or a device takes its content now; any other file its name.
  Status publish() {
    if (temporary_.empty()) {
      const FileDescriptor file(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
      if (!file) return std::unexpected(system_error("cannot open", target_, errno));
      return write_descriptor(file.get(), target_, direct_);
    }
    if (::rename(temporary_.c_str(), target_.c_str()) != 0)
      return std::unexpected(system_error("cannot rename a new file to", target_, errno));
    forget_temporary(temporary_);
    temporary_.clear();
    published_ = true;
    return {};
  }
  /// Takes a published file away again.
  void withdraw() {
    if (published_) ::unlink(target_.c_str());
  }
  Status sync() const {
    return published_ ? sync_directory(target_.has_parent_path() ? target_.parent_path() : fs::path(".")) : Status();
  }

 private:
  StagedFile() = default;

  fs::path target_, temporary_;
  std::string_view direct_;  ///< of a pipe or device
  bool published_ = false;
};

}  // namespace

Status write_files_atomic(std::span<const FileContent> files) {
  std::vector<StagedFile> staged;
  for (const FileContent& file : files) {
    TS_ASSIGN(StagedFile one, StagedFile::write(file.path, file.content));
    staged.push_back(std::move(one));
  }
  for (StagedFile& file : staged)
    if (Status published = file.publish(); !published) {
      for (StagedFile& other : staged) other.withdraw();
      return published;
    }
  for (const StagedFile& file : staged) TS_TRY(file.sync());
  return {};
}

Status write_file_atomic(const fs::path& path, std::string_view content) {
  const FileContent file{path, content};
  return write_files_atomic({&file, 1});
}

Status sync_directory(const fs::path& directory) {
  const FileDescriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder that this user may write to and not list (mode 0333) holds the new name all the same; only a descriptor to
  // sync it by is not to be had.
  if (!file && errno == EACCES) return {};
  if (!file) return std::unexpected(system_error("cannot open", directory, errno));
  // Some network file systems cannot sync a directory and say EINVAL: nothing better is to be had there.
  if (::fsync(file.get()) != 0 && errno != EINVAL)
    return std::unexpected(system_error("cannot sync", directory, errno));
  return {};
}

Status make_private_directories(const fs::path& path) {
  fs::path sofar;
  for (const fs::path& part : path) {
    sofar /= part;
    if (::mkdir(sofar.c_str(), 0700) == 0 || errno == EEXIST) continue;
    const int reason = errno;
    // On a read-only file system mkdir may refuse before it notices that the directory exists.
    std::error_code ignored;
    if (!fs::is_directory(sofar, ignored)) return std::unexpected(system_error("cannot create", sofar, reason));
  }
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::unexpected(system_error("cannot create", path, ENOTDIR));
  return {};
}

Result<fs::path> make_unique_directory(const fs::path& parent, std::string_view prefix) {
  std::string pattern = (parent / (std::string(prefix) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return std::unexpected(system_error("cannot create a directory in", parent, errno));
  return fs::path(pattern);
}

Status remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return std::unexpected(system_error("cannot remove", path, error.value()));
  return {};
}

Status check_only_ours(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return std::unexpected(system_error("cannot resolve", path, error.value()));

  // The path is walked as the kernel walks it, one component at a time, so that directories that hold a link on the way
  // are looked at too.
  std::vector<fs::path> ahead;
  push_parts(ahead, absolute);
  fs::path sofar;
  int links = 0;
  while (!ahead.empty()) {
    const fs::path part = std::move(ahead.back());
    ahead.pop_back();
    if (part == "..") {
      sofar = sofar.parent_path();
      continue;
    }
    const fs::path here = sofar / part;
    struct stat status {};
    if (::lstat(here.c_str(), &status) != 0) return std::unexpected(system_error("cannot look at", here, errno));
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} belongs to user {}, who could replace what is stored in {}", here.string(),
                              status.st_uid, absolute.string()),
                  "use a directory of your own");
    if (S_ISLNK(status.st_mode)) {
      if (++links > 40) return std::unexpected(system_error("cannot resolve", path, ELOOP));
      const fs::path target = fs::read_symlink(here, error);
      if (error) return std::unexpected(system_error("cannot read the link", here, error.value()));
      push_parts(ahead, target);
      if (target.is_absolute()) sofar.clear();
      continue;
    }
    const bool open_to_others = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    const bool shared_on_the_way = (status.st_mode & S_ISVTX) != 0 && !ahead.empty();
    if (open_to_others && !shared_on_the_way)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} (mode {:o}) can be changed by other users, who could plant code in {}", here.string(),
                              status.st_mode & 07777, absolute.string()),
                  fmt::format("chmod go-w '{}'", here.string()));
    sofar = here;
  }
  return {};
}

Result<TemporaryDirectory> TemporaryDirectory::create(std::string_view prefix, const fs::path& parent) {
  const fs::path place = !parent.empty() ? parent : fs::path(env("TMPDIR").value_or("/tmp"));
  TS_ASSIGN(fs::path path, create_temporary([&] { return make_unique_directory(place, prefix); }));
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::TemporaryDirectory(fs::path path) : path_(std::move(path)), owner_(::getpid()) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    owner_ = other.owner_;
  }
  return *this;
}

void TemporaryDirectory::release() {
  forget_temporary(path_);
  path_.clear();
}

void TemporaryDirectory::remove() {
  if (path_.empty()) return;
  // A forked child has a copy of this object, and the directory is still its parent's.
  if (owner_ != ::getpid()) return path_.clear();
  // Nobody could act on a failure here; what is left lies in a directory meant for temporary things.
  static_cast<void>(remove_tree(path_));
  forget_temporary(path_);
  path_.clear();
}

}  // namespace tilesmith
