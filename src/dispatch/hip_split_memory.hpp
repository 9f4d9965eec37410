// Where the blocks of a kernel leave partial results for the kernel behind it in the stream. Launches that follow each
// other may share memory, and launches that may run at the same time must not: a stream keeps a piece of its own, and a
// launch that is captured into a graph gets one for good.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "runtime/hip/memory.hpp"
#include "runtime/hip/stream.hpp"

namespace tilesmith {

class HipSplitMemory {
 public:
  explicit HipSplitMemory(HipDevice device) : device_(std::move(device)) {}

  /// At least so many bytes for the next launch in the stream. Takes a lock; allocates only where the stream has no
  /// piece yet or one too small, or is being captured. Error: out_of_memory.
  [[nodiscard]] Result<float*> of(hip::Stream stream, std::size_t bytes);

 private:
  struct Piece {
    hip::Stream stream;
    HipBuffer memory;
  };

  HipDevice device_;
  std::mutex mutex_;
  std::vector<Piece> streams_;
  std::vector<HipBuffer> kept_;  ///< of graphs, and those that a stream outgrew, which may still be in use
};

}  // namespace tilesmith
