// Trials on this machine's CPU: calls run on the case's own memory.
#pragma once

#include "trial/device.hpp"

namespace tilesmith {

class CpuTrialDevice final : public TrialDevice {
 public:
  explicit CpuTrialDevice(std::vector<NamedInput> inputs) : inputs_(std::move(inputs)) {}

  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::cpu; }
  [[nodiscard]] Status run(std::span<const OutputMemory> outputs, std::size_t workspace, BindCall bind) override;
  [[nodiscard]] Status keep_inputs() override;
  [[nodiscard]] Result<std::optional<ChangedInput>> changed_input() override;
  [[nodiscard]] Result<Timing> time(std::span<const OutputSpec> outputs, BindCall bind,
                                    const MeasureOptions& options) override;

 private:
  std::vector<NamedInput> inputs_;
  std::vector<std::vector<std::byte>> kept_;  ///< copies of the inputs, in their order
};

}  // namespace tilesmith
