#include "sweep/planning_backend.hpp"

#include <fmt/format.h>

#include "base/function_ref.hpp"
#include "base/json.hpp"
#include "dispatch/cuda_backend.hpp"
#include "dispatch/hip_backend.hpp"
#include "measure/isolate.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/hip/device.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

/// What a child learns from `ask`, which wakes a device's driver: a process whose driver is awake cannot fork workers
/// that use it.
Result<json> asked_in_a_child(std::string_view whom, std::chrono::milliseconds limit, FunctionRef<Result<json>()> ask) {
  Result<json> answer = fail(ErrorCode::internal, fmt::format("{} could not be asked", whom));
  TS_TRY(run_isolated(
      1, limit,
      [&](std::size_t) {
        const Result<json> found = ask();
        const json out = found ? json{{"found", *found}}
                               : json{{"code", static_cast<int>(found.error().code)},
                                      {"message", found.error().message},
                                      {"hint", found.error().hint}};
        return out.dump(-1, ' ', false, json::error_handler_t::replace);
      },
      [&](const IsolatedResult& result) {
        if (result.status != IsolatedStatus::done) {
          answer = fail(ErrorCode::internal, fmt::format("asking {}: {}", whom, result.payload));
          return false;
        }
        const json in = json::parse(result.payload);
        if (in.contains("found"))
          answer = in["found"];
        else
          answer = fail(static_cast<ErrorCode>(in["code"].get<int>()), in["message"], in["hint"]);
        return false;
      }));
  return answer;
}

Result<PlanningBackend> cuda_planning_backend(int index, std::chrono::milliseconds limit) {
  TS_ASSIGN(const json facts, asked_in_a_child("the CUDA driver", limit, [&]() -> Result<json> {
              TS_ASSIGN(const CudaDeviceProperties found, cuda_device_properties(index));
              const CudaDeviceInfo& device = (*cuda_devices())[static_cast<std::size_t>(index)];
              return json({found.compute_major, found.compute_minor, found.sm_count, found.l2_bytes,
                           found.memory_bytes_per_second, device.name, device.driver_version});
            }));
  TS_ASSIGN(std::unique_ptr<CudaBackend> backend,
            CudaBackend::make(index, {facts[0], facts[1], facts[2], facts[3], facts[4]}));
  const Peaks peaks = cuda_peaks(backend->spec());
  return PlanningBackend{.backend = std::move(backend),
                         .peaks = peaks,
                         .device_name = facts[5],
                         .driver = std::to_string(facts[6].get<int>())};
}

Result<PlanningBackend> hip_planning_backend(int index, std::chrono::milliseconds limit) {
  TS_ASSIGN(const json facts, asked_in_a_child("the HIP runtime", limit, [&]() -> Result<json> {
              TS_ASSIGN(const HipDeviceProperties found, hip_device_properties(index));
              const HipDeviceInfo& device = (*hip_devices())[static_cast<std::size_t>(index)];
              return json({found.arch, found.compute_units, device.name, device.runtime_version});
            }));
  TS_ASSIGN(std::unique_ptr<HipBackend> backend, HipBackend::make(index, {facts[0], facts[1]}));
  const Peaks peaks = hip_peaks(backend->spec());
  return PlanningBackend{.backend = std::move(backend),
                         .peaks = peaks,
                         .device_name = facts[2],
                         .driver = std::to_string(facts[3].get<int>())};
}

}  // namespace

Result<PlanningBackend> open_planning_backend(Device device, int threads, std::chrono::milliseconds limit) {
  switch (device.kind) {
    case DeviceKind::cpu: {
      TS_ASSIGN(std::unique_ptr<Backend> backend, open_backend(device, threads));
      const CpuMachine& machine = *this_cpu_machine();
      return PlanningBackend{.backend = std::move(backend),
                             .threads = threads > 0 ? threads : machine.threads,
                             .device_name = machine.model};
    }
    case DeviceKind::cuda:
      return cuda_planning_backend(device.index, limit);
    case DeviceKind::hip:
      return hip_planning_backend(device.index, limit);
  }
  return fail(ErrorCode::not_found, fmt::format("there is no {}", to_string(device)), "cpu, cuda:N or hip:N");
}

}  // namespace tilesmith
