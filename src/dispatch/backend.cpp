#include "dispatch/backend.hpp"

#include <fmt/format.h>

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

Status check_one_step(const Recipe& recipe) {
  if (recipe.steps.size() == 1 && recipe.steps.front().role == StepRole::compute) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("recipe {} does not compute this problem, which is computed by one kernel", recipe_name(recipe)),
      "a kernel's name, without a role and without \"+\"");
}

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
  switch (device.kind) {
    case DeviceKind::cpu: {
      const Result<CpuMachine>& machine = this_cpu_machine();
      if (!machine) return std::unexpected(machine.error());
      return std::make_unique<CpuBackend>(*machine, threads);
    }
    case DeviceKind::cuda: {
      TS_ASSIGN(const CudaDeviceProperties facts, cuda_device_properties(device.index));
      return CudaBackend::make(device.index, facts);
    }
  }
  return fail(ErrorCode::not_found, fmt::format("there is no {}", to_string(device)), "cpu, or cuda:N");
}

}  // namespace tilesmith
