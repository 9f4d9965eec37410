// tilesmith arch: the architectures known, the devices found, and what each backend lacks.
#include <fmt/color.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/verbs.hpp"
#include "jit/nvrtc_library.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"
#include "spec/cpu/spec.hpp"

namespace tilesmith::cli {
namespace {

nlohmann::json to_json(const CudaDeviceInfo& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"arch", device.arch()},
          {"uuid", device.uuid},
          {"pci_bus", device.pci_bus},
          {"sm_count", device.sm_count},
          {"shared_bytes_per_block", device.shared_bytes_per_block},
          {"shared_bytes_per_sm", device.shared_bytes_per_sm},
          {"registers_per_sm", device.registers_per_sm},
          {"l2_bytes", device.l2_bytes},
          {"memory_bytes", device.memory_bytes},
          {"memory_bytes_per_second", device.memory_bytes_per_second},
          {"clock_khz", device.clock_khz},
          {"clusters", device.clusters}};
}

/// The devices or why there are none, and the compiler or why there is none: one may be there without the other.
nlohmann::json cuda_json() {
  nlohmann::json cuda = {{"devices", nlohmann::json::array()}};
  if (const auto& devices = cuda_devices()) {
    cuda["driver_version"] = devices->front().driver_version;
    for (const CudaDeviceInfo& device : *devices) cuda["devices"].push_back(to_json(device));
  } else {
    cuda["error"] = devices.error().text();
  }
  if (const auto compiler = NvrtcLibrary::find())
    cuda["compiler"] = {{"identity", compiler->identity()}, {"path", compiler->path()}};
  else
    cuda["compiler"] = {{"error", compiler.error().text()}};
  return cuda;
}

void print_cuda() {
  if (const auto& devices = cuda_devices()) {
    const int version = devices->front().driver_version;
    fmt::print("CUDA driver for CUDA {}.{}\n", version / 1000, version % 1000 / 10);
    for (const CudaDeviceInfo& device : *devices)
      fmt::print("  {} {}: {}, {} SMs, {} KiB shared memory a block, L2 {} MiB, {:.1f} GiB, {:.0f} GB/s\n",
                 device.index, device.name, device.arch(), device.sm_count, device.shared_bytes_per_block / 1024,
                 device.l2_bytes >> 20, static_cast<double>(device.memory_bytes) / (1 << 30),
                 device.memory_bytes_per_second * 1e-9);
  } else {
    fmt::print("CUDA {}\n", devices.error().text());
  }
  if (const auto compiler = NvrtcLibrary::find())
    fmt::print("  compiler NVRTC {}.{}, {}\n", compiler->major(), compiler->minor(), compiler->path());
  else
    fmt::print("  {}\n", compiler.error().text());
}

Status print_archs(bool as_json) {
  TS_ASSIGN(const std::vector<CpuSpec> specs, load_cpu_specs());
  const Result<CpuMachine>& machine = this_cpu_machine();

  if (as_json) {
    nlohmann::json cpu = {{"levels", nlohmann::json::array()}};
    if (machine) {
      cpu["model"] = machine->model;
      cpu["threads"] = machine->threads;
      cpu["arch"] = machine->levels.front().arch.text();
      cpu["l1d_bytes"] = machine->l1d_bytes;
      cpu["l2_bytes"] = machine->l2_bytes;
      cpu["l3_bytes"] = machine->l3_bytes;
    } else {
      cpu["error"] = machine.error().text();
    }
    for (const CpuSpec& spec : specs)
      cpu["levels"].push_back({{"arch", spec.arch.text()},
                               {"about", spec.about},
                               {"runs_here", machine && machine->level(spec.arch) != nullptr},
                               {"missing", machine ? missing_features(spec, machine->features) : spec.features}});
    fmt::print("{}", json_text({{"cpu", std::move(cpu)}, {"cuda", cuda_json()}}));
    return {};
  }

  if (machine)
    fmt::print("CPU  {}: {}, {} threads, L1d {} KiB, L2 {} KiB\n", machine->model, machine->levels.front().arch.text(),
               machine->threads, machine->l1d_bytes / 1024, machine->l2_bytes / 1024);
  else
    fmt::print("CPU  {}\n", machine.error().text());
  for (const CpuSpec& spec : specs) {
    const bool runs = machine && machine->level(spec.arch) != nullptr;
    const std::string state =
        runs ? std::string("runs here")
             : fmt::format("lacks {}",
                           fmt::join(machine ? missing_features(spec, machine->features) : spec.features, ", "));
    fmt::print("  {:16} {:28} {}\n", spec.arch.text(), state, spec.about);
  }
  print_cuda();
  return {};
}

}  // namespace

void add_arch(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("arch", "The architectures known, the devices found, and what each backend lacks");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "One JSON document");
  verb->callback([as_json, &exit_code] { exit_code = exit_code_of(print_archs(*as_json)); });
}

}  // namespace tilesmith::cli
