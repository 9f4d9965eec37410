// The memory one CPU call works in.
#pragma once

#include <cstddef>

#include "runtime/aligned_buffer.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// The caller's workspace, or this thread's own, which grows to what the largest plan needs; null when none is needed.
[[nodiscard]] inline void* cpu_workspace(const RunOptions& options, std::size_t bytes) {
  if (options.workspace != nullptr || bytes == 0) return options.workspace;
  thread_local AlignedBuffer own;
  own.reserve(bytes, Pages::huge);
  return own.data();
}

}  // namespace tilesmith
