// The counters of dynamically scheduled kernels: two zeroed words that every launch leaves zeroed, so that launches
// that follow each other may share a pair and launches that may run at the same time must not.
//
// A stream has a pair of its own, found by its identity, which the driver never gives twice. A launch that is being
// captured into a graph gets a fresh pair for good: the graph may run in any stream, next to anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "dispatch/cuda_stream_slots.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/memory.hpp"

namespace tilesmith {

class CudaTileCounters {
 public:
  static constexpr std::size_t kStreams = CudaStreamSlots::kStreams;
  static constexpr std::size_t kCaptured = 32768;  ///< captured launches that can have a pair
  /// A sector of memory for each pair, so that pairs of different streams do not share a line's atomics.
  static constexpr std::size_t kPairBytes = 32;

  [[nodiscard]] static Result<std::unique_ptr<CudaTileCounters>> create(const CudaContext& context);

  /// The pair for the next launch in the stream, in device memory. Takes no lock and allocates nothing. Error:
  /// out_of_memory when all pairs are given away.
  [[nodiscard]] Result<unsigned*> of(cu::Stream stream);

 private:
  CudaTileCounters(const CudaContext& context, CudaBuffer memory)
      : context_(context), memory_(std::move(memory)), slots_(context) {}

  [[nodiscard]] unsigned* at(std::size_t pair) const;

  const CudaContext& context_;
  CudaBuffer memory_;
  CudaStreamSlots slots_;
  std::atomic<std::size_t> captured_{0};
};

}  // namespace tilesmith
