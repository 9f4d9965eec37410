#include "dispatch/backend.hpp"

#include "base/error.hpp"
#include "dispatch/cpu_backend.hpp"
#include "dispatch/cuda_backend.hpp"

namespace tilesmith {
namespace {

std::unexpected<Error> reads_plain_b() {
  return fail(ErrorCode::unsupported, "this device has no kernels of a packed B",
              "B as it lies, which its kernels read at full speed; the CPU packs");
}

}  // namespace

Result<KernelConfig> GemmBackend::packer(const GemmProblem&) const {
  return reads_plain_b();
}

Result<std::size_t> GemmBackend::packed_b_bytes(const GemmProblem&, BuildPolicy) {
  return reads_plain_b();
}

Status GemmBackend::pack_b(const GemmProblem&, const GemmOperand&, void*, BuildPolicy) {
  return reads_plain_b();
}

Result<std::unique_ptr<Backend>> open_backend(Device device, int threads) {
  if (device.kind == DeviceKind::cpu) {
    const Result<CpuMachine>& machine = this_cpu_machine();
    if (!machine) return std::unexpected(machine.error());
    return std::make_unique<CpuBackend>(*machine, threads);
  }
  TS_ASSIGN(const CudaDeviceProperties facts, cuda_device_properties(device.index));
  return CudaBackend::make(device.index, facts);
}

}  // namespace tilesmith
