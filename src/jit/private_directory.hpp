// Directories that belong to one process until it gives them away or dies. The process holds a lock on the directory
// itself, which the kernel releases at its death: so leftovers can be told from work in progress, on any machine and in
// any container that shares the disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"

namespace tilesmith {

class PrivateDirectory {
 public:
  /// A new one inside `parent`, named `prefix` and random characters.
  [[nodiscard]] static Result<PrivateDirectory> create(const std::filesystem::path& parent, std::string_view prefix);

  [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }
  /// Gives the directory away to where it was renamed.
  void release() { directory_.release(); }

 private:
  PrivateDirectory(TemporaryDirectory directory, FileDescriptor lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}

  TemporaryDirectory directory_;
  FileDescriptor lock_;
};

/// Removes directories in `parent` whose name starts with `prefix` and whose process is gone; says how many.
std::size_t sweep_private_directories(const std::filesystem::path& parent, std::string_view prefix);

}  // namespace tilesmith
