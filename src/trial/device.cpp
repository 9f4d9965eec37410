#include "trial/device.hpp"

#include "trial/cpu.hpp"
#include "trial/cuda.hpp"

namespace tilesmith {

Result<std::unique_ptr<TrialDevice>> open_trial_device(Device device, std::vector<NamedInput> inputs) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return std::make_unique<CpuTrialDevice>(std::move(inputs));
    case DeviceKind::cuda:
      return CudaTrialDevice::create(device.index, inputs);
  }
  std::unreachable();
}

}  // namespace tilesmith
