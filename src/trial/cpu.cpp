#include "trial/cpu.hpp"

#include "runtime/aligned_buffer.hpp"
#include "runtime/poison.hpp"
#include "trial/host_outputs.hpp"

namespace tilesmith {

Status CpuTrialDevice::run(std::span<const OutputMemory> outputs, std::size_t workspace, BindCall bind) {
  CallMemory memory(inputs_);
  for (const OutputMemory& output : outputs) memory.add_output(*output.spec, output.storage.data() + output.offset);
  AlignedBuffer work(workspace);
  poison({work.data(), work.bytes()});
  return bind(memory, {.workspace = work.data()})();
}

Status CpuTrialDevice::keep_inputs() {
  if (!kept_.empty()) return {};
  for (const NamedInput& input : inputs_) {
    const auto* data = static_cast<const std::byte*>(input.data);
    kept_.emplace_back(data, data + input.bytes);
  }
  return {};
}

Result<std::optional<ChangedInput>> CpuTrialDevice::changed_input() {
  for (std::size_t i = 0; i < kept_.size(); ++i)
    if (const auto byte = first_difference(
            inputs_[i].data, inputs_[i].after != nullptr ? inputs_[i].after : kept_[i].data(), kept_[i].size()))
      return ChangedInput{inputs_[i].name, *byte};
  return std::nullopt;
}

Result<Timing> CpuTrialDevice::time(std::span<const OutputSpec> specs, BindCall bind, const MeasureOptions& options) {
  HostOutputs outputs({specs.begin(), specs.end()});
  CallMemory memory(inputs_);
  outputs.add_to(memory);
  std::vector<MemoryRange> touched = outputs.ranges();
  for (const NamedInput& input : inputs_) touched.push_back({input.data, input.bytes});
  const ReadyCall call = bind(memory, {});
  Status status;
  Timing timing = measure(
      [&] {
        if (status) status = call();
      },
      touched, options);
  if (!status) return std::unexpected(status.error());
  return timing;
}

}  // namespace tilesmith
