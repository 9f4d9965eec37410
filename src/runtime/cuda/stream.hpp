// Order and time on a device: streams, events, and captured graphs. Functions take the driver's stream handle, because
// streams are the caller's as often as Tilesmith's own.
#pragma once

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "runtime/cuda/owned.hpp"

namespace tilesmith {

/// Waits until the device has done everything in the stream. Faults of kernels come out here.
[[nodiscard]] Status synchronize(const CudaContext& context, cu::Stream stream);
[[nodiscard]] Result<bool> is_capturing(const CudaContext& context, cu::Stream stream);

/// A stream that Tilesmith makes, which does not wait for the default stream.
class CudaStream {
 public:
  [[nodiscard]] static Result<CudaStream> create(const CudaContext& context);

  CudaStream() = default;

  [[nodiscard]] cu::Stream handle() const { return owned_.handle(); }
  [[nodiscard]] Status synchronize() const { return tilesmith::synchronize(owned_.context(), owned_.handle()); }

 private:
  CudaStream(const CudaContext& context, cu::Stream handle) : owned_(context, handle) {}

  CudaOwned<cu::Stream, &CudaDriver::stream_destroy> owned_;
};

class CudaEvent {
 public:
  enum class Timing : bool { off, on };
  [[nodiscard]] static Result<CudaEvent> create(const CudaContext& context, Timing timing = Timing::on);

  CudaEvent() = default;

  [[nodiscard]] cu::Event handle() const { return owned_.handle(); }
  [[nodiscard]] Status record(cu::Stream stream) const;
  /// Makes what follows in the stream wait for the event.
  [[nodiscard]] Status delay(cu::Stream stream) const;
  [[nodiscard]] Status synchronize() const;
  /// Whether the device has reached it.
  [[nodiscard]] Result<bool> reached() const;
  /// Time on the device between two recorded events, which it must have reached; the driver resolves about 0.5 us.
  [[nodiscard]] static Result<double> seconds_between(const CudaEvent& start, const CudaEvent& stop);

 private:
  CudaEvent(const CudaContext& context, cu::Event handle) : owned_(context, handle) {}

  CudaOwned<cu::Event, &CudaDriver::event_destroy> owned_;
};

/// Work that was captured from a stream, to be launched as a whole.
class CudaGraph {
 public:
  /// Captures what `work` puts into the stream instead of running it; the stream must not be the default one. The
  /// capture is ended whatever `work` returns. Other threads are not hindered, this one is: what would wait for the
  /// device fails.
  [[nodiscard]] static Result<CudaGraph> capture(const CudaContext& context, cu::Stream stream,
                                                 FunctionRef<Status()> work);

  CudaGraph() = default;

  [[nodiscard]] Status launch(cu::Stream stream) const;

 private:
  CudaGraph(const CudaContext& context, cu::GraphExec handle) : owned_(context, handle) {}

  CudaOwned<cu::GraphExec, &CudaDriver::graph_exec_destroy> owned_;
};

/// Lets this thread load code and allocate for a scope although it is capturing a stream.
class CudaCaptureRelaxed {
 public:
  explicit CudaCaptureRelaxed(const CudaDriver& driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  ~CudaCaptureRelaxed() { driver_.exchange_capture_mode(&mode_); }
  CudaCaptureRelaxed(const CudaCaptureRelaxed&) = delete;
  CudaCaptureRelaxed& operator=(const CudaCaptureRelaxed&) = delete;

 private:
  const CudaDriver& driver_;
  cu::CaptureMode mode_ = cu::CaptureMode::relaxed;
};

}  // namespace tilesmith
