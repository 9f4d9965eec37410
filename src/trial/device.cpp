#include "trial/device.hpp"

#include <algorithm>
#include <cstring>

#include "trial/cpu.hpp"
#include "trial/cuda.hpp"
#include "trial/hip.hpp"

namespace tilesmith {

std::optional<std::size_t> first_difference(const void* left, const void* right, std::size_t bytes) {
  if (bytes == 0 || std::memcmp(left, right, bytes) == 0) return std::nullopt;
  const auto* l = static_cast<const std::byte*>(left);
  return static_cast<std::size_t>(std::mismatch(l, l + bytes, static_cast<const std::byte*>(right)).first - l);
}

Result<std::unique_ptr<TrialDevice>> open_trial_device(Device device, std::vector<NamedInput> inputs) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return std::make_unique<CpuTrialDevice>(std::move(inputs));
    case DeviceKind::cuda:
      return open_cuda_trial_device(device.index, inputs);
    case DeviceKind::hip:
      return open_hip_trial_device(device.index, inputs);
  }
  std::unreachable();
}

}  // namespace tilesmith
