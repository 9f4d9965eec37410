#include "runtime/hip/stream.hpp"

namespace tilesmith {

Status synchronize(const HipDevice& device, hip::Stream stream) {
  const HipCurrent current(device);
  TS_TRY(current.status());
  return hip_status(device.library(), device.library().stream_synchronize(stream), "synchronising the stream");
}

Result<bool> is_capturing(const HipDevice& device, hip::Stream stream) {
  const HipCurrent current(device);
  TS_TRY(current.status());
  hip::CaptureStatus status = hip::CaptureStatus::none;
  TS_TRY(hip_status(device.library(), device.library().stream_is_capturing(stream, &status),
                    "asking whether the stream is captured"));
  return status != hip::CaptureStatus::none;
}

Result<HipStream> HipStream::create(const HipDevice& device) {
  const HipCurrent current(device);
  TS_TRY(current.status());
  hip::Stream handle = nullptr;
  TS_TRY(hip_status(device.library(), device.library().stream_create(&handle, hip::kStreamNonBlocking),
                    "creating a stream"));
  return HipStream(device, handle);
}

Result<HipEvent> HipEvent::create(const HipDevice& device, Timing timing) {
  const HipCurrent current(device);
  TS_TRY(current.status());
  hip::Event handle = nullptr;
  const unsigned flags = timing == Timing::on ? 0 : hip::kEventDisableTiming;
  TS_TRY(hip_status(device.library(), device.library().event_create(&handle, flags), "creating an event"));
  return HipEvent(device, handle);
}

Status HipEvent::record(hip::Stream stream) const {
  const HipCurrent current(owned_.device());
  TS_TRY(current.status());
  return hip_status(owned_.device().library(), owned_.device().library().event_record(owned_.handle(), stream),
                    "recording an event");
}

Status HipEvent::delay(hip::Stream stream) const {
  const HipCurrent current(owned_.device());
  TS_TRY(current.status());
  return hip_status(owned_.device().library(), owned_.device().library().stream_wait_event(stream, owned_.handle(), 0),
                    "making a stream wait for an event");
}

Status HipEvent::synchronize() const {
  const HipCurrent current(owned_.device());
  TS_TRY(current.status());
  return hip_status(owned_.device().library(), owned_.device().library().event_synchronize(owned_.handle()),
                    "waiting for an event");
}

Result<bool> HipEvent::reached() const {
  const HipCurrent current(owned_.device());
  TS_TRY(current.status());
  const hip::Code code = owned_.device().library().event_query(owned_.handle());
  if (code == hip::Code::not_ready) return false;
  TS_TRY(hip_status(owned_.device().library(), code, "asking for an event"));
  return true;
}

Result<double> HipEvent::seconds_between(const HipEvent& start, const HipEvent& stop) {
  const HipLibrary& library = start.owned_.device().library();
  const HipCurrent current(start.owned_.device());
  TS_TRY(current.status());
  float milliseconds = 0;
  TS_TRY(hip_status(library, library.event_elapsed_time(&milliseconds, start.handle(), stop.handle()),
                    "reading the time between two events"));
  return static_cast<double>(milliseconds) * 1e-3;
}

Result<HipGraph> HipGraph::capture(const HipDevice& device, hip::Stream stream, FunctionRef<Status()> work) {
  const HipLibrary& library = device.library();
  if (stream == nullptr)
    return fail(ErrorCode::invalid_argument, "the default stream cannot be captured", "give a stream of your own");
  const HipCurrent current(device);
  TS_TRY(current.status());
  TS_TRY(hip_status(library, library.stream_begin_capture(stream, hip::CaptureMode::thread_local_),
                    "beginning to capture the stream"));
  const Status worked = work();
  hip::Graph captured = nullptr;
  const hip::Code ended = library.stream_end_capture(stream, &captured);
  struct Destroy {
    const HipLibrary& library;
    hip::Graph graph;
    ~Destroy() {
      if (graph != nullptr) library.graph_destroy(graph);
    }
  } const destroy{library, captured};
  // What broke the capture says more than that it is broken.
  TS_TRY(worked);
  TS_TRY(hip_status(library, ended, "ending the capture of the stream"));
  hip::GraphExec handle = nullptr;
  TS_TRY(hip_status(library, library.graph_instantiate(&handle, captured, 0), "making the captured graph ready"));
  return HipGraph(device, handle);
}

Status HipGraph::launch(hip::Stream stream) const {
  const HipCurrent current(owned_.device());
  TS_TRY(current.status());
  return hip_status(owned_.device().library(), owned_.device().library().graph_launch(owned_.handle(), stream),
                    "launching a graph");
}

}  // namespace tilesmith
