// Timing work on a GPU by events in its stream, whatever the vendor.
#pragma once

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "measure/measure.hpp"

namespace tilesmith {

/// What a vendor's timer does on the device.
struct GpuTimerSteps {
  FunctionRef<Status()> enqueue;         ///< the work
  FunctionRef<Status()> synchronize;     ///< waits for the stream
  FunctionRef<Status()> evict;           ///< overwrites what the caches hold
  FunctionRef<Result<double>()> sample;  ///< enqueues between two events, waits, and tells the seconds between them
};

/// Runs the work once untimed, then takes samples; with options.cold, caches are overwritten before each.
[[nodiscard]] Result<Timing> measure_on_gpu(const GpuTimerSteps& steps, const MeasureOptions& options);

/// A sample between two events of either vendor.
template <class Event, class Stream>
[[nodiscard]] Result<double> seconds_in_stream(const Event& begin, const Event& end, Stream stream,
                                               FunctionRef<Status()> enqueue) {
  TS_TRY(begin.record(stream));
  TS_TRY(enqueue());
  TS_TRY(end.record(stream));
  TS_TRY(end.synchronize());
  return Event::seconds_between(begin, end);
}

}  // namespace tilesmith
