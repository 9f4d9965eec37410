// What the blocks of a kernel share that add up partial results: float32 partials, and counters that are zero before a
// launch and left zero by it. Launches that follow each other may share memory and launches that may run at the same
// time must not.
//
// A stream keeps a piece of its own. Launches captured into a graph share a piece with those captured before them in
// the same stream, and with no other launches; the graph holds it, and when the graph is destroyed the piece serves
// again. (One graph instantiated twice has one piece: its two instances must not run at the same time.) A stream's
// piece is as large as any plan asks for, so that it is made once; a graph's only as its launches need, since there may
// be many graphs.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "dispatch/cuda_stream_slots.hpp"
#include "runtime/cuda/memory.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaSplitMemory {
 public:
  struct Size {
    std::size_t part_bytes = 0;
    std::size_t counters = 0;  ///< 32-bit words, among them sums that partials are added to

    /// Of both, as one piece of memory.
    [[nodiscard]] std::size_t bytes() const { return counter_bytes() + part_bytes; }
    [[nodiscard]] std::size_t counter_bytes() const { return (counters * 4 + 255) / 256 * 256; }
    /// What holds either.
    [[nodiscard]] Size joined(const Size& other) const {
      return {std::max(part_bytes, other.part_bytes), std::max(counters, other.counters)};
    }
  };
  struct Place {
    unsigned* counters = nullptr;
    float* parts = nullptr;
  };

  explicit CudaSplitMemory(const CudaContext& context);
  ~CudaSplitMemory();
  CudaSplitMemory(const CudaSplitMemory&) = delete;
  CudaSplitMemory& operator=(const CudaSplitMemory&) = delete;

  /// How memory of Size::bytes() is shared out.
  [[nodiscard]] static Place place_in(void* memory, const Size& size);

  /// Sees to it that the next stream needs no allocation. Error: out_of_memory.
  [[nodiscard]] Status reserve(const Size& size);

  /// For the next launch in the stream. Takes no lock and allocates nothing, but where the stream has no piece yet or
  /// one too small, or is being captured. Errors: out_of_memory.
  [[nodiscard]] Result<Place> of(cu::Stream stream, const Size& size);

  /// For the next launch of a run: in the caller's workspace, whose counters are zeroed first, or as of(). Errors:
  /// invalid_argument for a workspace that is not aligned, out_of_memory.
  [[nodiscard]] Result<Place> place_for(const RunOptions& options, const Size& size);

 private:
  struct Piece;
  struct Shared;
  struct Held;

  [[nodiscard]] Result<const Piece*> take(const Size& size, const Size& made);
  [[nodiscard]] Result<Place> of_capture(cu::Stream stream, std::uint64_t capture, cu::Graph graph, const Size& size);

  const CudaContext& context_;
  CudaStreamSlots slots_;
  std::array<std::atomic<const Piece*>, CudaStreamSlots::kStreams> streams_{};
  std::vector<std::unique_ptr<const Piece>> pieces_;  ///< all; one that a stream outgrew may still be in use
  Size largest_;                                      ///< that any plan asked for
  std::shared_ptr<Shared> shared_;                    ///< a graph may outlive us
};

}  // namespace tilesmith
