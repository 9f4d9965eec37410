// How the memory that one call works in is shared out: named regions, one behind the other.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class WorkspaceLayout {
 public:
  static constexpr std::size_t kAlignment = 64;  ///< in bytes, of every workspace and region

  /// Appends a region at the next multiple of `alignment`, a power of two of at least kAlignment, and returns its
  /// offset. Alignments above kAlignment are those of the offset, since a workspace is aligned to kAlignment alone:
  /// they keep what different processors write apart. A region of no bytes is not listed.
  std::size_t add(std::string name, std::size_t bytes, std::size_t alignment = kAlignment);

  /// Lists memory of a call that is never the caller's: the library keeps it, for each stream or, on the CPU,
  /// each thread that calls.
  void add_library_memory(std::string name, std::size_t bytes);

  /// Of the caller's workspace.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<WorkspaceRegion>& regions() const { return regions_; }

  /// Writes regions and bytes into a plan's info.
  void tell(PlanInfo& info) const;

 private:
  std::vector<WorkspaceRegion> regions_;
  std::size_t bytes_ = 0;
};

/// Error: invalid_argument, a caller's workspace that is not aligned. Null is none, and right.
[[nodiscard]] Status check_workspace(const void* workspace);

}  // namespace tilesmith
