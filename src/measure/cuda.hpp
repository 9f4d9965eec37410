// Timing work on a CUDA device: by events in its stream, with a cold L2.
#pragma once

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "measure/measure.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"

namespace tilesmith {

class CudaTimer {
 public:
  /// Allocates the memory that evicts the L2 cache.
  [[nodiscard]] static Result<CudaTimer> create(const CudaContext& context);

  /// Runs `enqueue` once untimed, then times it: with options.cold, twice the L2 is overwritten before each sample. A
  /// sample is the time between events around the work, which the driver resolves to about 0.5 us.
  [[nodiscard]] Result<Timing> measure(cu::Stream stream, FunctionRef<Status()> enqueue,
                                       const MeasureOptions& options) const;

 private:
  CudaTimer(const CudaContext& context, CudaBuffer eviction, CudaEvent begin, CudaEvent end)
      : context_(&context), eviction_(std::move(eviction)), begin_(std::move(begin)), end_(std::move(end)) {}

  const CudaContext* context_;
  CudaBuffer eviction_;
  CudaEvent begin_, end_;
};

}  // namespace tilesmith
