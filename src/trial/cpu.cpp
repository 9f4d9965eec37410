#include "trial/cpu.hpp"

#include "trial/host_outputs.hpp"

namespace tilesmith {

Status CpuTrialDevice::run(std::span<const OutputMemory> outputs, BindCall bind) {
  CallMemory memory(inputs_);
  for (const OutputMemory& output : outputs) memory.add_output(*output.spec, output.storage.data() + output.offset);
  return bind(memory, {})();
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
