#include "dispatch/backend.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "dispatch/cpu_backend.hpp"
#include "dispatch/cuda_backend.hpp"
#include "dispatch/hip_backend.hpp"

namespace tilesmith {

Status check_one_step(const Recipe& recipe) {
  if (recipe.steps.size() == 1 && recipe.steps.front().role == StepRole::compute) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("recipe {} does not compute this problem, which is computed by one kernel", recipe_name(recipe)),
      "a kernel's name, without a role and without \"+\"");
}

Error Backend::no_kernels_of(std::string_view operation) const {
  return {ErrorCode::unsupported, fmt::format("{} has no kernels of {}", to_string(device_), operation),
          "a device that has them, such as the CPU"};
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
    case DeviceKind::hip: {
      TS_ASSIGN(const HipDeviceProperties facts, hip_device_properties(device.index));
      return HipBackend::make(device.index, facts);
    }
  }
  return fail(ErrorCode::not_found, fmt::format("there is no {}", to_string(device)), "cpu, cuda:N or hip:N");
}

}  // namespace tilesmith
