#include "dispatch/backend.hpp"

#include "dispatch/cpu_backend.hpp"

namespace tilesmith {

Result<std::unique_ptr<Backend>> open_backend(Device device, int threads) {
  if (device.kind == DeviceKind::cpu) {
    const Result<CpuMachine>& machine = this_cpu_machine();
    if (!machine) return std::unexpected(machine.error());
    return std::make_unique<CpuBackend>(*machine, threads);
  }
  return fail(ErrorCode::unsupported, "no kernels for " + to_string(device));
}

}  // namespace tilesmith
