#include "sweep/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/json.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "jit/cxx_toolchain.hpp"
#include "jit/nvrtc_library.hpp"
#include "measure/isolate.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/hip/device.hpp"
#include "sweep/version.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// What identifies a GPU: its name, and its driver in words.
json gpu_words(Device device) {
  const auto place = static_cast<std::size_t>(device.index);
  switch (device.kind) {
    case DeviceKind::cpu:
      break;
    case DeviceKind::cuda:
      if (const auto& devices = cuda_devices(); devices && place < devices->size()) {
        const int version = (*devices)[place].driver_version;
        return {{"gpu", (*devices)[place].name},
                {"driver", fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10)}};
      }
      break;
    case DeviceKind::hip:
      if (const auto& devices = hip_devices(); devices && place < devices->size()) {
        return {{"gpu", (*devices)[place].name},
                {"driver", "HIP " + hip_version_name((*devices)[place].runtime_version)}};
      }
      break;
  }
  return {{"gpu", nullptr}, {"driver", nullptr}};
}

/// The same from a child: a process whose driver is awake cannot fork workers that use it.
json asked_of_driver(Device device, std::chrono::milliseconds limit) {
  json out = {{"gpu", nullptr}, {"driver", nullptr}};
  const Status asked = run_isolated(
      1, limit, [&](std::size_t) { return gpu_words(device).dump(-1, ' ', false, json::error_handler_t::replace); },
      [&](const IsolatedResult& result) {
        if (result.status == IsolatedStatus::done) out = json::parse(result.payload);
        return true;
      });
  if (!asked) return {{"gpu", nullptr}, {"driver", nullptr}};
  return out;
}

json compiler_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      if (const auto cxx = CxxToolchain::find()) return first_line((*cxx)->identity());
      break;
    case DeviceKind::cuda:
      if (const auto nvrtc = NvrtcLibrary::find()) return fmt::format("NVRTC {}.{}", nvrtc->major(), nvrtc->minor());
      break;
    case DeviceKind::hip:
      if (const auto clang = AmdgcnToolchain::find()) return first_line((*clang)->identity());
      break;
  }
  return nullptr;
}

}  // namespace

json provenance(Device device, int threads, std::chrono::milliseconds limit) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const auto& machine = this_cpu_machine();
  const std::string_view commit = program_commit();
  json out = {{"schema", kResultsSchema},
              {"tool", "tilesmith"},
              {"version", program_version()},
              {"commit", commit.empty() ? json(nullptr) : json(commit)},
              {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"host", host.data()},
              {"cpu", machine ? json(machine->model) : json(nullptr)},
              {"device", to_string(device)},
              {"threads", threads},
              {"compiler", compiler_of(device.kind)}};
  if (is_gpu(device.kind)) out.update(asked_of_driver(device, limit));
  return out;
}

std::string about_lines(const json& provenance) {
  std::string lines;
  for (const auto& [name, value] : provenance.items()) {
    if (value.is_null()) continue;
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::ranges::replace(text, '\n', ' ');
    lines += fmt::format("# {}: {}\n", name, text);
  }
  return lines;
}

}  // namespace tilesmith
