// A lock between processes (and threads): flock on a file that is never deleted, because whoever holds a deleted file's
// inode holds a lock that nobody else sees. The kernel releases it when its holder dies. Waiting is bounded: a lock
// saves work, it never decides whether work is done.
#pragma once

#include <chrono>
#include <filesystem>
#include <stop_token>

#include "base/error.hpp"
#include "base/file.hpp"

namespace tilesmith {

class FileLock {
 public:
  /// Creates the file when it is missing. Errors: `busy` when another holds it for the whole of `bound` (the message
  /// names the process), `cancelled`, and `unsupported` when the file system cannot lock or the file cannot be opened.
  [[nodiscard]] static Result<FileLock> acquire(const std::filesystem::path& path, std::chrono::milliseconds bound,
                                                const std::stop_token& stop = {});
  /// One attempt.
  [[nodiscard]] static Result<FileLock> try_acquire(const std::filesystem::path& path) {
    return acquire(path, std::chrono::milliseconds(0));
  }

  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock() { release(); }

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}
  void release();

  FileDescriptor file_;
};

}  // namespace tilesmith
