#include "trial/hip.hpp"

#include "measure/hip.hpp"
#include "trial/gpu.hpp"

namespace tilesmith {
namespace {

struct Hip {
  using Device = HipDevice;
  using Kept = HipDevice;
  using Current = HipCurrent;
  using Buffer = HipBuffer;
  using Stream = HipStream;
  using Timer = HipTimer;
  static constexpr DeviceKind kKind = DeviceKind::hip;
};

}  // namespace

Result<std::unique_ptr<TrialDevice>> open_hip_trial_device(int device_index, std::span<const NamedInput> inputs) {
  TS_ASSIGN(const HipLibrary* library, hip_library());
  TS_ASSIGN(const HipDevice device, HipDevice::open(*library, device_index));
  return GpuTrialDevice<Hip>::create(device, inputs);
}

}  // namespace tilesmith
