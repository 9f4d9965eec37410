// Order and time on an AMD GPU: streams, events, and captured graphs. Functions take the runtime's stream handle,
// because streams are the caller's as often as Tilesmith's own.
#pragma once

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "runtime/hip/owned.hpp"

namespace tilesmith {

/// Waits until the device has done everything in the stream. Faults of kernels come out here.
[[nodiscard]] Status synchronize(const HipDevice& device, hip::Stream stream);
[[nodiscard]] Result<bool> is_capturing(const HipDevice& device, hip::Stream stream);

/// For a scope, lets the calling thread load code although some stream is captured.
class HipCaptureRelaxed {
 public:
  explicit HipCaptureRelaxed(const HipLibrary& library) : library_(library) {
    static_cast<void>(library_.exchange_capture_mode(&mode_));
  }
  ~HipCaptureRelaxed() { static_cast<void>(library_.exchange_capture_mode(&mode_)); }
  HipCaptureRelaxed(const HipCaptureRelaxed&) = delete;
  HipCaptureRelaxed& operator=(const HipCaptureRelaxed&) = delete;

 private:
  const HipLibrary& library_;
  hip::CaptureMode mode_ = hip::CaptureMode::relaxed;
};

/// A stream that Tilesmith makes, which does not wait for the default stream.
class HipStream {
 public:
  [[nodiscard]] static Result<HipStream> create(const HipDevice& device);

  HipStream() = default;

  [[nodiscard]] hip::Stream handle() const { return owned_.handle(); }
  [[nodiscard]] Status synchronize() const { return tilesmith::synchronize(owned_.device(), owned_.handle()); }

 private:
  HipStream(const HipDevice& device, hip::Stream handle) : owned_(device, handle) {}

  HipOwned<hip::Stream, &HipLibrary::stream_destroy> owned_;
};

class HipEvent {
 public:
  enum class Timing : bool { off, on };
  [[nodiscard]] static Result<HipEvent> create(const HipDevice& device, Timing timing = Timing::on);

  HipEvent() = default;

  [[nodiscard]] hip::Event handle() const { return owned_.handle(); }
  [[nodiscard]] Status record(hip::Stream stream) const;
  /// Makes what follows in the stream wait for the event.
  [[nodiscard]] Status delay(hip::Stream stream) const;
  [[nodiscard]] Status synchronize() const;
  /// Whether the device has reached it.
  [[nodiscard]] Result<bool> reached() const;
  /// Time on the device between two recorded events, which it must have reached.
  [[nodiscard]] static Result<double> seconds_between(const HipEvent& start, const HipEvent& stop);

 private:
  HipEvent(const HipDevice& device, hip::Event handle) : owned_(device, handle) {}

  HipOwned<hip::Event, &HipLibrary::event_destroy> owned_;
};

/// Work that was captured from a stream, to be launched as a whole.
class HipGraph {
 public:
  /// Captures what `work` puts into the stream instead of running it; the stream must not be the default one. The
  /// capture is ended whatever `work` returns.
  [[nodiscard]] static Result<HipGraph> capture(const HipDevice& device, hip::Stream stream,
                                                FunctionRef<Status()> work);

  HipGraph() = default;

  [[nodiscard]] Status launch(hip::Stream stream) const;

 private:
  HipGraph(const HipDevice& device, hip::GraphExec handle) : owned_(device, handle) {}

  HipOwned<hip::GraphExec, &HipLibrary::graph_exec_destroy> owned_;
};

}  // namespace tilesmith
