#include "dispatch/backend.hpp"

#include "dispatch/cpu_backend.hpp"
#include "dispatch/cuda_backend.hpp"

namespace tilesmith {

Result<std::unique_ptr<Backend>> open_backend(Device device, int threads) {
  if (device.kind == DeviceKind::cpu) {
    const Result<CpuMachine>& machine = this_cpu_machine();
    if (!machine) return std::unexpected(machine.error());
    return std::make_unique<CpuBackend>(*machine, threads);
  }
  TS_ASSIGN(const CudaPlanningFacts facts, cuda_planning_facts(device.index));
  return CudaBackend::make(device.index, facts);
}

}  // namespace tilesmith
