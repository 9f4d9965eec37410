// The devices of this machine, and what keeps a kind of device from being used.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/uncancelled.hpp"
#include "capi/device.hpp"
#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "jit/nvrtc_library.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/hip/device.hpp"

namespace tilesmith::capi {
namespace {

struct FoundDevice {
  Device device;
  std::string name;
  std::string arch;
  std::vector<tilesmith_fact> facts;
};

struct FoundBackend {
  int count = 0;
  Error missing{ErrorCode::unsupported, "", ""};  ///< no message: nothing is missing
};

/// Looked for once; lives for ever, because callers hold pointers into it.
struct Found {
  std::vector<FoundDevice> devices;
  FoundBackend cpu;
  FoundBackend cuda;
  FoundBackend hip;

  Found() {
    find_cpu();
    find_cuda();
    find_hip();
  }
  void find_cpu();
  void find_cuda();
  void find_hip();
};

void Found::find_cpu() {
  const Result<CpuMachine>& machine = this_cpu_machine();
  if (!machine) {
    cpu.missing = machine.error();
    return;
  }
  cpu.count = 1;
  devices.push_back({.device = {},
                     .name = machine->model,
                     .arch = std::string(machine->levels.front().arch.text()),
                     .facts = {{"threads", machine->threads},
                               {"l1d_bytes", machine->l1d_bytes},
                               {"l2_bytes", machine->l2_bytes},
                               {"l3_bytes", machine->l3_bytes}}});
}

void Found::find_cuda() {
  const Result<std::vector<CudaDeviceInfo>>& infos = cuda_devices();
  if (!infos) {
    cuda.missing = infos.error();
    return;
  }
  cuda.count = static_cast<int>(infos->size());
  for (const CudaDeviceInfo& info : *infos)
    devices.push_back({.device = {DeviceKind::cuda, info.index},
                       .name = info.name,
                       .arch = info.arch(),
                       .facts = {{"multiprocessors", info.sm_count},
                                 {"memory_bytes", static_cast<std::int64_t>(info.memory_bytes)},
                                 {"memory_bytes_per_second", static_cast<std::int64_t>(info.memory_bytes_per_second)},
                                 {"l2_bytes", info.l2_bytes},
                                 {"shared_bytes_per_multiprocessor", info.shared_bytes_per_sm},
                                 {"shared_bytes_per_block", info.shared_bytes_per_block},
                                 {"clock_khz", info.clock_khz},
                                 {"driver_version", info.driver_version}}});
}

void Found::find_hip() {
  const Result<std::vector<HipDeviceInfo>>& infos = hip_devices();
  if (!infos) {
    hip.missing = infos.error();
    return;
  }
  hip.count = static_cast<int>(infos->size());
  for (const HipDeviceInfo& info : *infos)
    devices.push_back({.device = {DeviceKind::hip, info.index},
                       .name = info.name,
                       .arch = info.arch,
                       .facts = {{"compute_units", info.compute_units},
                                 {"memory_bytes", static_cast<std::int64_t>(info.memory_bytes)},
                                 {"lanes_per_wave", info.lanes_per_wave},
                                 {"lds_bytes_per_block", info.lds_bytes_per_block},
                                 {"runtime_version", info.runtime_version}}});
}

/// What keeps kernels of a kind from being compiled. Looked for when somebody asks: NVRTC is a large library, clang a
/// process.
template <class Compiler>
const Error& missing_compiler() {
  const Uncancelled looking;
  static const Error& once = *new Error([] {
    const auto compiler = Compiler::find();
    return compiler ? Error{ErrorCode::not_found, "", ""} : compiler.error();
  }());
  return once;
}

const Found& found() {
  const Uncancelled looking;
  static const Found& once = *new Found;
  return once;
}

}  // namespace
}  // namespace tilesmith::capi

tilesmith_status tilesmith_device_count(int64_t* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    if (out == nullptr) return fail(ErrorCode::invalid_argument, "out is null", "a place for the number");
    *out = static_cast<int64_t>(capi::found().devices.size());
    return {};
  });
}

tilesmith_status tilesmith_device_at(int64_t i, tilesmith_device_info* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    const auto& devices = capi::found().devices;
    if (i < 0 || i >= static_cast<int64_t>(devices.size()))
      return fail(ErrorCode::invalid_argument, fmt::format("there is no device {}", i),
                  fmt::format("0 to {}", static_cast<int64_t>(devices.size()) - 1));
    const auto& device = devices[static_cast<std::size_t>(i)];
    return capi::write_struct("tilesmith_device_info", out,
                              {sizeof *out, capi::device_in_c(device.device), device.name.c_str(), device.arch.c_str(),
                               device.facts.data(), static_cast<int64_t>(device.facts.size())});
  });
}

tilesmith_status tilesmith_backend(int32_t kind, tilesmith_backend_info* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    if (kind != TILESMITH_CPU && kind != TILESMITH_CUDA && kind != TILESMITH_HIP)
      return fail(ErrorCode::invalid_argument, fmt::format("the kind is {}", kind),
                  "TILESMITH_CPU, TILESMITH_CUDA or TILESMITH_HIP");
    const capi::Found& found = capi::found();
    const auto& backend = kind == TILESMITH_CPU ? found.cpu : kind == TILESMITH_CUDA ? found.cuda : found.hip;
    const Error& missing = backend.count == 0 || kind == TILESMITH_CPU ? backend.missing
                           : kind == TILESMITH_CUDA                    ? capi::missing_compiler<NvrtcLibrary>()
                                                                       : capi::missing_compiler<AmdgcnToolchain>();
    return capi::write_struct("tilesmith_backend_info", out,
                              {sizeof *out, kind, backend.count, missing.message.c_str(), missing.hint.c_str()});
  });
}
