// Files, as a program needs them that must survive crashes and full disks: whole reads with a bound, writes that are
// seen complete or not at all, private directories. Every error names the path and the operating system's reason.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace tilesmith {

/// Owns an open descriptor and closes it.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

/// The error for a failed system call on `path`: "cannot open /a/b: Permission denied", with a hint. `reason` is errno.
[[nodiscard]] Error system_error(std::string_view what, const std::filesystem::path& path, int reason);

inline constexpr std::uint64_t kDefaultReadLimit = 1ull << 30;

/// The whole file; an error when it holds more than `limit` bytes, so that no input can exhaust memory. Reads pipes and
/// devices too.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit = kDefaultReadLimit);
/// The same of a file that another program was to write: anything but a regular file (a pipe, a device, a link) is an
/// error at once, and nothing is waited for.
[[nodiscard]] Result<std::string> read_regular_file(const std::filesystem::path& path,
                                                    std::uint64_t limit = kDefaultReadLimit);
/// The rest of an open file; `path` is for messages.
[[nodiscard]] Result<std::string> read_descriptor(int fd, const std::filesystem::path& path,
                                                  std::uint64_t limit = kDefaultReadLimit);
/// All of `content`, through interruptions and short writes.
[[nodiscard]] Status write_descriptor(int fd, const std::filesystem::path& path, std::string_view content);

enum class Sync : std::uint8_t { no, yes };
/// Creates a file that must not exist yet, mode 0600, and writes it. For files in a directory that is private until it
/// is renamed.
[[nodiscard]] Status write_new_file(const std::filesystem::path& path, std::string_view content, Sync sync = Sync::no);
/// Readers of `path` see the old content or all of the new one, also after a crash. Through a symbolic link its target
/// is replaced; what is not a regular file (a pipe, /dev/stdout) is written to in place.
[[nodiscard]] Status write_file_atomic(const std::filesystem::path& path, std::string_view content);

struct FileContent {
  std::filesystem::path path;
  std::string_view content;
};
/// The same for several files: no name is new before the content of every file is whole. When one cannot be renamed in
/// spite of that, those that were are removed.
[[nodiscard]] Status write_files_atomic(std::span<const FileContent> files);

/// Makes a rename or a new name inside `directory` survive power loss, where this user may open the directory.
[[nodiscard]] Status sync_directory(const std::filesystem::path& directory);

/// Creates what is missing of `path`, mode 0700.
[[nodiscard]] Status make_private_directories(const std::filesystem::path& path);
/// A new directory, mode 0700, inside `parent`, named `prefix` and six random characters.
[[nodiscard]] Result<std::filesystem::path> make_unique_directory(const std::filesystem::path& parent,
                                                                  std::string_view prefix);
/// Removes a file or a directory with all it holds; links are removed, not followed. What is not there is no error.
[[nodiscard]] Status remove_tree(const std::filesystem::path& path);

/// Whether nobody but this user and root can change what `path` leads to: every directory on the way, through symbolic
/// links, is owned by one of the two and not writable to others. A shared directory with the sticky bit (/tmp) may be
/// on the way: its entries cannot be replaced. `path` must exist. The hint names the command that would make it right.
[[nodiscard]] Status check_only_ours(const std::filesystem::path& path);

/// A private directory that is removed with everything in it at the end of its life, or of the process's work
/// (base/end_of_work.hpp).
class TemporaryDirectory {
 public:
  /// Inside `parent`; when empty, inside TMPDIR or /tmp.
  [[nodiscard]] static Result<TemporaryDirectory> create(std::string_view prefix,
                                                         const std::filesystem::path& parent = {});

  TemporaryDirectory(TemporaryDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), owner_(other.owner_) {}
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory() { remove(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Gives the directory away: it stays where it is, or where its new owner moves it.
  void release();

 private:
  explicit TemporaryDirectory(std::filesystem::path path);
  void remove();

  std::filesystem::path path_;
  pid_t owner_;  ///< the process that made it
};

}  // namespace tilesmith
