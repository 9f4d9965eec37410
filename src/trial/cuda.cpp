#include "trial/cuda.hpp"

#include <vector>

namespace tilesmith {

Result<std::unique_ptr<TrialDevice>> CudaTrialDevice::create(int device_index, std::span<const NamedInput> inputs) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index));
  const CudaCurrent current(*context);
  TS_TRY(current.status());
  TS_ASSIGN(CudaStream stream, CudaStream::create(*context));
  std::unique_ptr<CudaTrialDevice> device(new CudaTrialDevice(*context, std::move(stream), inputs));
  for (const NamedInput& input : inputs) {
    if (input.bytes == 0) continue;
    TS_ASSIGN(CudaBuffer copy, CudaBuffer::allocate(*context, input.bytes));
    TS_TRY(copy_to_device(*context, copy.data(), input.data, input.bytes, device->stream_.handle()));
    device->inputs_.emplace(input.name, std::move(copy));
  }
  TS_TRY(device->stream_.synchronize());
  return device;
}

CallMemory CudaTrialDevice::inputs_there() const {
  CallMemory memory;
  for (const auto& [name, buffer] : inputs_) memory.add_input(name, buffer.data());
  return memory;
}

Status CudaTrialDevice::run(std::span<const OutputMemory> outputs, std::size_t, BindCall bind) {
  const CudaCurrent current(*context_);
  TS_TRY(current.status());
  CallMemory memory = inputs_there();
  std::vector<CudaBuffer> copies;
  for (const OutputMemory& output : outputs) {
    TS_ASSIGN(CudaBuffer copy, CudaBuffer::allocate(*context_, output.storage.size()));
    if (!output.storage.empty())
      TS_TRY(copy_to_device(*context_, copy.data(), output.storage.data(), output.storage.size(), stream_.handle()));
    memory.add_output(*output.spec, static_cast<std::byte*>(copy.data()) + output.offset);
    copies.push_back(std::move(copy));
  }
  // In the library's own workspace, as callers run it: a plan that is given one takes another way.
  TS_TRY(bind(memory, {.stream = stream_.handle()})());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::span<std::byte> storage = outputs[i].storage;
    if (!storage.empty())
      TS_TRY(copy_to_host(*context_, storage.data(), copies[i].data(), storage.size(), stream_.handle()));
  }
  return stream_.synchronize();
}

Result<std::optional<ChangedInput>> CudaTrialDevice::changed_input() {
  const CudaCurrent current(*context_);
  TS_TRY(current.status());
  std::vector<std::byte> there;
  for (const NamedInput& input : originals_) {
    if (input.bytes == 0) continue;
    there.resize(input.bytes);
    TS_TRY(copy_to_host(*context_, there.data(), inputs_.at(input.name).data(), input.bytes, stream_.handle()));
    TS_TRY(stream_.synchronize());
    if (const auto byte = first_difference(there.data(), input.data, input.bytes))
      return ChangedInput{input.name, *byte};
  }
  return std::nullopt;
}

Result<Timing> CudaTrialDevice::time(std::span<const OutputSpec> outputs, BindCall bind,
                                     const MeasureOptions& options) {
  const CudaCurrent current(*context_);
  TS_TRY(current.status());
  CallMemory memory = inputs_there();
  std::vector<CudaBuffer> buffers;
  for (const OutputSpec& output : outputs) {
    TS_ASSIGN(CudaBuffer buffer, CudaBuffer::allocate(*context_, bytes_of(output)));
    if (output.accumulates) TS_TRY(fill_bytes(*context_, buffer.data(), 0, buffer.bytes(), stream_.handle()));
    memory.add_output(output, buffer.data());
    buffers.push_back(std::move(buffer));
  }
  const ReadyCall call = bind(memory, {.stream = stream_.handle()});
  TS_ASSIGN(const CudaTimer timer, CudaTimer::create(*context_));
  return timer.measure(stream_.handle(), call, options);
}

}  // namespace tilesmith
