#include "sweep/planning_backend.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "dispatch/cuda_backend.hpp"
#include "measure/isolate.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

struct CudaFacts {
  CudaDeviceProperties properties;
  std::string name;
  int driver = 0;
};

/// What planning needs to know of a CUDA device, asked by a child: a process whose driver is awake cannot fork workers
/// that use it.
Result<CudaFacts> isolated_planning_facts(int device_index, std::chrono::milliseconds limit) {
  Result<CudaFacts> facts = fail(ErrorCode::internal, "the CUDA driver could not be asked");
  TS_TRY(run_isolated(
      1, limit,
      [&](std::size_t) {
        const auto found = cuda_device_properties(device_index);
        if (!found)
          return json({{"code", static_cast<int>(found.error().code)},
                       {"message", found.error().message},
                       {"hint", found.error().hint}})
              .dump(-1, ' ', false, json::error_handler_t::replace);
        const CudaDeviceInfo& device = (*cuda_devices())[static_cast<std::size_t>(device_index)];
        return json({found->compute_major, found->compute_minor, found->sm_count, found->l2_bytes,
                     found->memory_bytes_per_second, device.name, device.driver_version})
            .dump(-1, ' ', false, json::error_handler_t::replace);
      },
      [&](const IsolatedResult& result) {
        if (result.status != IsolatedStatus::done) {
          facts = fail(ErrorCode::internal, fmt::format("asking the CUDA driver: {}", result.payload));
          return false;
        }
        const json in = json::parse(result.payload);
        if (in.is_object())
          facts = fail(static_cast<ErrorCode>(in["code"].get<int>()), in["message"], in["hint"]);
        else
          facts = CudaFacts{.properties = {in[0], in[1], in[2], in[3], in[4]}, .name = in[5], .driver = in[6]};
        return false;
      }));
  return facts;
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
    case DeviceKind::cuda: {
      TS_ASSIGN(const CudaFacts facts, isolated_planning_facts(device.index, limit));
      TS_ASSIGN(std::unique_ptr<CudaBackend> backend, CudaBackend::make(device.index, facts.properties));
      PlanningBackend planning{.backend = nullptr,
                               .peaks = cuda_peaks(backend->spec()),
                               .device_name = facts.name,
                               .driver = std::to_string(facts.driver)};
      planning.backend = std::move(backend);
      return planning;
    }
  }
  return fail(ErrorCode::not_found, fmt::format("there is no {}", to_string(device)), "cpu, or cuda:N");
}

}  // namespace tilesmith
