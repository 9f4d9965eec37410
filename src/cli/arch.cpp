// tilesmith arch: the architectures known, the devices found, and what each backend lacks.
#include <fmt/color.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.hpp"
#include "cli/verbs.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "jit/cxx_toolchain.hpp"
#include "jit/nvrtc_library.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/hip/device.hpp"
#include "spec/amd/chip.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"

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

nlohmann::json to_json(const HipDeviceInfo& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"arch", device.arch},
          {"pci_bus", device.pci_bus},
          {"compute_units", device.compute_units},
          {"lanes_per_wave", device.lanes_per_wave},
          {"lds_bytes_per_block", device.lds_bytes_per_block},
          {"memory_bytes", device.memory_bytes}};
}

/// As cuda_json().
nlohmann::json hip_json() {
  nlohmann::json hip = {{"devices", nlohmann::json::array()}};
  if (const auto& devices = hip_devices()) {
    hip["runtime_version"] = devices->front().runtime_version;
    for (const HipDeviceInfo& device : *devices) hip["devices"].push_back(to_json(device));
  } else {
    hip["error"] = devices.error().text();
  }
  if (const auto compiler = AmdgcnToolchain::find())
    hip["compiler"] = {{"identity", (*compiler)->identity()}, {"path", (*compiler)->compiler().string()}};
  else
    hip["compiler"] = {{"error", compiler.error().text()}};
  return hip;
}

void print_hip() {
  if (const auto& devices = hip_devices()) {
    fmt::print("HIP {}\n", hip_version_name(devices->front().runtime_version));
    for (const HipDeviceInfo& device : *devices)
      fmt::print("  {} {}: {}, {} compute units, {} KiB local memory a block, {:.1f} GiB\n", device.index, device.name,
                 device.arch, device.compute_units, device.lds_bytes_per_block / 1024,
                 static_cast<double>(device.memory_bytes) / (1 << 30));
  } else {
    fmt::print("HIP  {}\n", devices.error().text());
  }
  if (const auto compiler = AmdgcnToolchain::find())
    fmt::print("  compiler {}\n", (*compiler)->compiler().string());
  else
    fmt::print("  {}\n", compiler.error().text());
}

/// What the level needs and this machine, which may fit no level at all, has not.
std::vector<std::string> missing_here(const CpuSpec& spec) {
  const Result<CpuMachine>& machine = this_cpu_machine();
  return missing_features(spec, machine ? machine->features : cpu_features());
}

nlohmann::json cpu_json(const std::vector<CpuSpec>& specs) {
  const Result<CpuMachine>& machine = this_cpu_machine();
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
                             {"missing", missing_here(spec)}});
  return cpu;
}

void print_cpu() {
  if (const Result<CpuMachine>& machine = this_cpu_machine())
    fmt::print("CPU  {}: {}, {} threads, L1d {} KiB, L2 {} KiB\n", machine->model, machine->levels.front().arch.text(),
               machine->threads, machine->l1d_bytes / 1024, machine->l2_bytes / 1024);
  else
    fmt::print("CPU  {}\n", machine.error().text());
}

/// What can be done for an architecture beside `list` and `generate`, which need nothing. An empty reason: it can be
/// done here.
struct ArchRow {
  std::string arch, device, about;
  std::string no_build, no_run;  ///< why not
  bool tested = false;           ///< its kernels have run on such a chip and were checked
};

std::string why_no_run(const CpuSpec& spec) {
  const Result<CpuMachine>& machine = this_cpu_machine();
  if (machine && machine->level(spec.arch) != nullptr) return {};
  return fmt::format("this CPU lacks {}", fmt::join(missing_here(spec), ", "));
}

std::string why_no_run(const CudaSpec& spec, const std::vector<CudaSpec>& specs) {
  const auto& devices = cuda_devices();
  if (!devices) return "no CUDA device here";
  for (const CudaDeviceInfo& device : *devices)
    if (const auto of = spec_for(specs, device.compute_major, device.compute_minor); of && (*of)->arch == spec.arch)
      return {};
  return "no such device here";
}

std::string why_no_run(const HipSpec& spec) {
  const auto& devices = hip_devices();
  if (!devices) return "no HIP device here";
  for (const HipDeviceInfo& device : *devices)
    if (device.arch == spec.arch.text()) return {};
  return "no such device here";
}

Result<std::vector<ArchRow>> arch_rows(const std::vector<CpuSpec>& cpu) {
  std::vector<ArchRow> rows;
  const auto cxx = CxxToolchain::find();
  for (const CpuSpec& spec : cpu)
    rows.push_back({.arch = std::string(spec.arch.text()),
                    .device = "cpu",
                    .about = spec.about,
                    .no_build = cxx ? "" : cxx.error().message,
                    .no_run = why_no_run(spec),
                    .tested = true});
  TS_ASSIGN(const std::vector<CudaSpec> cuda, load_cuda_specs());
  const auto nvrtc = NvrtcLibrary::find();
  for (const CudaSpec& spec : cuda)
    rows.push_back({.arch = std::string(spec.arch.text()),
                    .device = "cuda",
                    .about = spec.about,
                    .no_build = nvrtc ? "" : nvrtc.error().message,
                    .no_run = why_no_run(spec, cuda),
                    .tested = spec.tested});
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  const auto clang = AmdgcnToolchain::find();
  for (const HipSpec& spec : hip)
    rows.push_back({.arch = std::string(spec.arch.text()),
                    .device = "hip",
                    .about = fmt::format("{}: own {} kernels, and Composable Kernel's instances", spec.about,
                                         spec.attention_tiles.empty() ? "GEMM" : "attention and GEMM"),
                    .no_build = clang ? "" : clang.error().message,
                    .no_run = why_no_run(spec),
                    .tested = spec.tested});
  const auto& chips = amd_chips();
  if (!chips) return std::unexpected(chips.error());
  for (const AmdChip& chip : *chips) {
    if (std::ranges::find(hip, chip.arch, &HipSpec::arch) != hip.end()) continue;
    rows.push_back({.arch = std::string(chip.arch.text()),
                    .device = "amd",
                    .about = chip.attention ? "Composable Kernel's instances"
                                            : "Composable Kernel's instances, of GEMM and convolution alone",
                    .no_build = "Composable Kernel's instances are not built",
                    .no_run = "Composable Kernel's instances are not run"});
  }
  return rows;
}

nlohmann::json to_json(const ArchRow& row) {
  nlohmann::json out = {{"arch", row.arch}, {"device", row.device}, {"about", row.about},
                        {"list", true},     {"generate", true},     {"tested", row.tested}};
  for (const auto& [verb, reason] : {std::pair{"build", &row.no_build}, {"run", &row.no_run}}) {
    out[verb] = reason->empty();
    if (!reason->empty()) out["why_not"][verb] = *reason;
  }
  return out;
}

void print_rows(const std::vector<ArchRow>& rows) {
  fmt::print("\n{:18}{:6}{:10}{:7}{:9}{:8}{}\n", "architecture", "list", "generate", "build", "run here", "tested", "");
  const auto word = [](bool yes) { return yes ? "yes" : "-"; };
  for (const ArchRow& row : rows) {
    std::string remark = row.about.ends_with('.') ? row.about.substr(0, row.about.size() - 1) : row.about;
    // One reason for a row: what cannot be built cannot be run.
    const std::string& reason = !row.no_build.empty() ? row.no_build : row.no_run;
    if (!reason.empty()) remark += "; " + reason;
    fmt::print("{:18}{:6}{:10}{:7}{:9}{:8}{}\n", row.arch, "yes", "yes", word(row.no_build.empty()),
               word(row.no_run.empty()), word(row.tested), remark);
  }
  fmt::print("tested: its kernels have run on such a chip, and their results were checked\n");
}

Status print_archs(bool as_json) {
  TS_ASSIGN(const std::vector<CpuSpec> cpu, load_cpu_specs());
  TS_ASSIGN(const std::vector<ArchRow> rows, arch_rows(cpu));
  if (as_json) {
    nlohmann::json archs = nlohmann::json::array();
    for (const ArchRow& row : rows) archs.push_back(to_json(row));
    fmt::print(
        "{}",
        json_text(
            {{"cpu", cpu_json(cpu)}, {"cuda", cuda_json()}, {"hip", hip_json()}, {"architectures", std::move(archs)}}));
    return {};
  }
  print_cpu();
  print_cuda();
  print_hip();
  print_rows(rows);
  return {};
}

}  // namespace

void add_arch(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "arch", "The devices found, and for each architecture what can be done here: list, generate, build, run");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "One JSON document");
  verb->callback([as_json, &exit_code] { exit_code = exit_code_of(print_archs(*as_json)); });
}

}  // namespace tilesmith::cli
