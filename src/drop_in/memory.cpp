#include "drop_in/memory.hpp"

#include <utility>

namespace tilesmith::drop_in {

Result<std::unique_ptr<Memory>> open_memory(Device device, void* stream) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return open_cpu_memory();
    case DeviceKind::cuda:
      return open_cuda_memory(device.index, stream);
    case DeviceKind::hip:
      return open_hip_memory(device.index, stream);
  }
  std::unreachable();
}

}  // namespace tilesmith::drop_in
