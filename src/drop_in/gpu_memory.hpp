// The memory of a call on a GPU, whatever the vendor.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "drop_in/answer.hpp"
#include "drop_in/memory.hpp"

namespace tilesmith::drop_in {

/// The failure of a device, which is nothing about the call even where the driver calls a value invalid.
[[nodiscard]] inline Status of_device(Status status) {
  if (!status && is_about_the_call(status.error().code)) status.error().code = ErrorCode::launch_failed;
  return status;
}

/// `Gpu` names a vendor's types: Device (which copies and fills take), how it is Kept, Current, Buffer, Stream (a
/// handle), Event.
template <class Gpu>
class GpuMemory final : public Memory {
 public:
  using Device = typename Gpu::Device;
  using Buffer = typename Gpu::Buffer;
  using Stream = typename Gpu::Stream;

  GpuMemory(const Device& device, void* stream) : device_(device), stream_(static_cast<Stream>(stream)) {}

  [[nodiscard]] Result<const void*> input(const void* from, std::size_t bytes) override {
    TS_ASSIGN(void* const there, allocate(bytes));
    TS_TRY(of_device(copy_anywhere(device_, there, from, bytes, stream_)));
    TS_TRY(of_device(synchronize(device_, stream_)));
    return there;
  }

  [[nodiscard]] Result<void*> output(void* to, std::size_t bytes) override {
    TS_ASSIGN(void* const there, zeros(bytes));
    outputs_.push_back({to, there, bytes});
    return there;
  }

  [[nodiscard]] Result<void*> zeros(std::size_t bytes) override {
    TS_ASSIGN(void* const there, allocate(bytes));
    TS_TRY(of_device(fill_bytes(device_, there, 0, bytes, stream_)));
    return there;
  }

  [[nodiscard]] Status read(void* to, const void* from, std::size_t bytes) override {
    TS_TRY(of_device(copy_anywhere(device_, to, from, bytes, stream_)));
    return of_device(synchronize(device_, stream_));
  }

  [[nodiscard]] Result<double> run(FunctionRef<Status(const RunOptions&)> call, Repeats repeats) override {
    const typename Gpu::Current current(device_);
    TS_TRY(current.status());
    const RunOptions options{.stream = stream_};
    TS_ASSIGN(const typename Gpu::Event begin, Gpu::Event::create(device_));
    TS_ASSIGN(const typename Gpu::Event end, Gpu::Event::create(device_));
    for (int i = 0; i < repeats.warm_up; ++i) TS_TRY(call(options));
    TS_TRY(begin.record(stream_));
    for (int i = 0; i < repeats.timed; ++i) TS_TRY(call(options));
    TS_TRY(end.record(stream_));
    TS_TRY(of_device(end.synchronize()));
    TS_ASSIGN(const double seconds, Gpu::Event::seconds_between(begin, end));
    return seconds / repeats.timed;
  }

  [[nodiscard]] Status finish() override {
    for (const Output& output : outputs_)
      TS_TRY(of_device(copy_anywhere(device_, output.to, output.there, output.bytes, stream_)));
    return of_device(synchronize(device_, stream_));
  }

 private:
  struct Output {
    void* to;
    const void* there;
    std::size_t bytes;
  };

  [[nodiscard]] Result<void*> allocate(std::size_t bytes) {
    TS_ASSIGN(Buffer buffer, Buffer::allocate(device_, bytes));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().data();
  }

  typename Gpu::Kept device_;
  Stream stream_;
  std::vector<Buffer> buffers_;
  std::vector<Output> outputs_;
};

}  // namespace tilesmith::drop_in
