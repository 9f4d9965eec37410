// Trials on a GPU, whatever the vendor: a stream of their own, copies of the inputs, outputs that travel there and
// back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trial/device.hpp"

namespace tilesmith {

/// `Gpu` names a vendor's types: Device (which copies and fills take), how it is Kept, Current, Buffer, Stream, Timer,
/// and kKind.
template <class Gpu>
class GpuTrialDevice final : public TrialDevice {
 public:
  using Device = typename Gpu::Device;
  using Buffer = typename Gpu::Buffer;

  /// Copies the inputs. Errors: out_of_memory, and those of the device.
  [[nodiscard]] static Result<std::unique_ptr<TrialDevice>> create(const Device& device,
                                                                   std::span<const NamedInput> inputs) {
    const typename Gpu::Current current(device);
    TS_TRY(current.status());
    TS_ASSIGN(typename Gpu::Stream stream, Gpu::Stream::create(device));
    std::unique_ptr<GpuTrialDevice> made(new GpuTrialDevice(device, std::move(stream), inputs));
    for (const NamedInput& input : inputs) {
      if (input.bytes == 0) continue;
      TS_ASSIGN(Buffer copy, Buffer::allocate(device, input.bytes));
      TS_TRY(copy_to_device(device, copy.data(), input.data, input.bytes, made->stream_.handle()));
      made->inputs_.emplace(input.name, std::move(copy));
    }
    TS_TRY(made->stream_.synchronize());
    return made;
  }

  [[nodiscard]] DeviceKind kind() const override { return Gpu::kKind; }

  [[nodiscard]] Status run(std::span<const OutputMemory> outputs, std::size_t, BindCall bind) override {
    const typename Gpu::Current current(device_);
    TS_TRY(current.status());
    CallMemory memory = inputs_there();
    std::vector<Buffer> copies;
    for (const OutputMemory& output : outputs) {
      TS_ASSIGN(Buffer copy, Buffer::allocate(device_, output.storage.size()));
      if (!output.storage.empty())
        TS_TRY(copy_to_device(device_, copy.data(), output.storage.data(), output.storage.size(), stream_.handle()));
      memory.add_output(*output.spec, static_cast<std::byte*>(copy.data()) + output.offset);
      copies.push_back(std::move(copy));
    }
    // In the library's own workspace, as callers run it: a plan that is given one takes another way.
    TS_TRY(bind(memory, {.stream = stream_.handle()})());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::span<std::byte> storage = outputs[i].storage;
      if (!storage.empty())
        TS_TRY(copy_to_host(device_, storage.data(), copies[i].data(), storage.size(), stream_.handle()));
    }
    return stream_.synchronize();
  }

  [[nodiscard]] Status keep_inputs() override { return {}; }  // the host's are beyond a kernel's reach

  [[nodiscard]] Result<std::optional<ChangedInput>> changed_input() override {
    const typename Gpu::Current current(device_);
    TS_TRY(current.status());
    std::vector<std::byte>& there = read_back_;
    for (const NamedInput& input : originals_) {
      if (input.bytes == 0) continue;
      if (there.size() < input.bytes) there.resize(input.bytes);
      TS_TRY(copy_to_host(device_, there.data(), inputs_.at(input.name).data(), input.bytes, stream_.handle()));
      TS_TRY(stream_.synchronize());
      const void* const wanted = input.after != nullptr ? input.after : input.data;
      if (const auto byte = first_difference(there.data(), wanted, input.bytes)) return ChangedInput{input.name, *byte};
    }
    return std::nullopt;
  }

  [[nodiscard]] Result<Timing> time(std::span<const OutputSpec> outputs, BindCall bind,
                                    const MeasureOptions& options) override {
    const typename Gpu::Current current(device_);
    TS_TRY(current.status());
    TS_TRY(make_room_for_timing(outputs));
    CallMemory memory = inputs_there();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Buffer& buffer = timed_outputs_[i];
      if (outputs[i].accumulates) TS_TRY(fill_bytes(device_, buffer.data(), 0, buffer.bytes(), stream_.handle()));
      memory.add_output(outputs[i], buffer.data());
    }
    const ReadyCall call = bind(memory, {.stream = stream_.handle()});
    return timer_->measure(stream_.handle(), call, options);
  }

 private:
  GpuTrialDevice(const Device& device, typename Gpu::Stream stream, std::span<const NamedInput> originals)
      : device_(device), stream_(std::move(stream)), originals_(originals.begin(), originals.end()) {}

  /// Once for all timings: allocating and freeing takes as long as timing a small call.
  [[nodiscard]] Status make_room_for_timing(std::span<const OutputSpec> outputs) {
    if (timer_) return {};
    std::vector<Buffer> buffers;
    for (const OutputSpec& output : outputs) {
      TS_ASSIGN(Buffer buffer, Buffer::allocate(device_, bytes_of(output)));
      buffers.push_back(std::move(buffer));
    }
    TS_ASSIGN(typename Gpu::Timer timer, Gpu::Timer::create(device_));
    timed_outputs_ = std::move(buffers);
    timer_.emplace(std::move(timer));
    return {};
  }

  /// The inputs where they lie on the device.
  [[nodiscard]] CallMemory inputs_there() const {
    CallMemory memory;
    for (const auto& [name, buffer] : inputs_) memory.add_input(name, buffer.data());
    return memory;
  }

  typename Gpu::Kept device_;
  typename Gpu::Stream stream_;
  std::vector<NamedInput> originals_;  ///< the inputs on the host
  std::map<std::string, Buffer> inputs_;
  std::vector<std::byte> read_back_;   ///< an input, as it is on the device; kept, since its pages are
  std::vector<Buffer> timed_outputs_;  ///< of the case, in its order
  std::optional<typename Gpu::Timer> timer_;
};

}  // namespace tilesmith
