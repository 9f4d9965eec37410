#include "runtime/cuda/stream.hpp"

namespace tilesmith {

Status synchronize(const CudaContext& context, cu::Stream stream) {
  const CudaCurrent current(context);
  TS_TRY(current.status());
  return cuda_status(context.driver(), context.driver().stream_synchronize(stream), "synchronising the stream");
}

Result<bool> is_capturing(const CudaContext& context, cu::Stream stream) {
  const CudaCurrent current(context);
  TS_TRY(current.status());
  cu::CaptureStatus status = cu::CaptureStatus::none;
  TS_TRY(cuda_status(context.driver(), context.driver().stream_is_capturing(stream, &status),
                     "asking whether the stream is captured"));
  return status != cu::CaptureStatus::none;
}

Result<CudaStream> CudaStream::create(const CudaContext& context) {
  const CudaCurrent current(context);
  TS_TRY(current.status());
  cu::Stream handle = nullptr;
  TS_TRY(cuda_status(context.driver(), context.driver().stream_create(&handle, cu::kStreamNonBlocking),
                     "creating a stream"));
  return CudaStream(context, handle);
}

Result<CudaEvent> CudaEvent::create(const CudaContext& context, Timing timing) {
  const CudaCurrent current(context);
  TS_TRY(current.status());
  cu::Event handle = nullptr;
  const unsigned flags = timing == Timing::on ? 0 : cu::kEventDisableTiming;
  TS_TRY(cuda_status(context.driver(), context.driver().event_create(&handle, flags), "creating an event"));
  return CudaEvent(context, handle);
}

Status CudaEvent::record(cu::Stream stream) const {
  const CudaCurrent current(owned_.context());
  TS_TRY(current.status());
  return cuda_status(owned_.context().driver(), owned_.context().driver().event_record(owned_.handle(), stream),
                     "recording an event");
}

Status CudaEvent::delay(cu::Stream stream) const {
  const CudaCurrent current(owned_.context());
  TS_TRY(current.status());
  return cuda_status(owned_.context().driver(), owned_.context().driver().stream_wait_event(stream, owned_.handle(), 0),
                     "making a stream wait for an event");
}

Status CudaEvent::synchronize() const {
  const CudaCurrent current(owned_.context());
  TS_TRY(current.status());
  return cuda_status(owned_.context().driver(), owned_.context().driver().event_synchronize(owned_.handle()),
                     "waiting for an event");
}

Result<bool> CudaEvent::reached() const {
  const CudaCurrent current(owned_.context());
  TS_TRY(current.status());
  const cu::Code code = owned_.context().driver().event_query(owned_.handle());
  if (code == cu::Code::not_ready) return false;
  TS_TRY(cuda_status(owned_.context().driver(), code, "asking for an event"));
  return true;
}

Result<double> CudaEvent::seconds_between(const CudaEvent& start, const CudaEvent& stop) {
  const CudaDriver& driver = start.owned_.context().driver();
  const CudaCurrent current(start.owned_.context());
  TS_TRY(current.status());
  float milliseconds = 0;
  TS_TRY(cuda_status(driver, driver.event_elapsed_time(&milliseconds, start.handle(), stop.handle()),
                     "reading the time between two events"));
  return static_cast<double>(milliseconds) * 1e-3;
}

Result<CudaGraph> CudaGraph::capture(const CudaContext& context, cu::Stream stream, FunctionRef<Status()> work) {
  const CudaDriver& driver = context.driver();
  if (stream == nullptr)
    return fail(ErrorCode::invalid_argument, "the default stream cannot be captured", "give a stream of your own");
  const CudaCurrent current(context);
  TS_TRY(current.status());
  TS_TRY(cuda_status(driver, driver.stream_begin_capture(stream, cu::CaptureMode::thread_local_),
                     "beginning to capture the stream"));
  const Status worked = work();
  cu::Graph captured = nullptr;
  const cu::Code ended = driver.stream_end_capture(stream, &captured);
  struct Destroy {
    const CudaDriver& driver;
    cu::Graph graph;
    ~Destroy() {
      if (graph != nullptr) driver.graph_destroy(graph);
    }
  } const destroy{driver, captured};
  // What broke the capture says more than that it is broken.
  TS_TRY(worked);
  TS_TRY(cuda_status(driver, ended, "ending the capture of the stream"));
  cu::GraphExec handle = nullptr;
  TS_TRY(cuda_status(driver, driver.graph_instantiate(&handle, captured, 0), "making the captured graph ready"));
  return CudaGraph(context, handle);
}

Status CudaGraph::launch(cu::Stream stream) const {
  const CudaCurrent current(owned_.context());
  TS_TRY(current.status());
  return cuda_status(owned_.context().driver(), owned_.context().driver().graph_launch(owned_.handle(), stream),
                     "launching a graph");
}

}  // namespace tilesmith
