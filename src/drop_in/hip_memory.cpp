#include "drop_in/gpu_memory.hpp"
#include "runtime/hip/device.hpp"
#include "runtime/hip/memory.hpp"
#include "runtime/hip/stream.hpp"

namespace tilesmith::drop_in {
namespace {

struct Hip {
  using Device = HipDevice;
  using Kept = HipDevice;
  using Current = HipCurrent;
  using Buffer = HipBuffer;
  using Stream = hip::Stream;
  using Event = HipEvent;
};

}  // namespace

Result<std::unique_ptr<Memory>> open_hip_memory(int device, void* stream) {
  TS_ASSIGN(const HipLibrary* library, hip_library());
  TS_ASSIGN(const HipDevice opened, HipDevice::open(*library, device));
  return std::make_unique<GpuMemory<Hip>>(opened, stream);
}

}  // namespace tilesmith::drop_in
