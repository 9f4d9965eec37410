#include "sweep/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/json.hpp"
#include "jit/cxx_toolchain.hpp"
#include "jit/nvrtc_library.hpp"
#include "measure/isolate.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cuda/device.hpp"
#include "sweep/version.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// {"gpu": name, "driver": "13.0"}, from a child.
json asked_of_driver(int index, std::chrono::milliseconds limit) {
  json out = {{"gpu", nullptr}, {"driver", nullptr}};
  const Status asked = run_isolated(
      1, limit,
      [&](std::size_t) {
        const auto& devices = cuda_devices();
        if (!devices || static_cast<std::size_t>(index) >= devices->size()) return std::string();
        const CudaDeviceInfo& device = (*devices)[static_cast<std::size_t>(index)];
        const int version = device.driver_version;
        return json({{"gpu", device.name}, {"driver", fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10)}})
            .dump(-1, ' ', false, json::error_handler_t::replace);
      },
      [&](const IsolatedResult& result) {
        if (result.status == IsolatedStatus::done && !result.payload.empty()) out = json::parse(result.payload);
        return true;
      });
  if (!asked) return {{"gpu", nullptr}, {"driver", nullptr}};
  return out;
}

json compiler_of(Device device) {
  if (is_gpu(device.kind)) {
    const auto nvrtc = NvrtcLibrary::find();
    return nvrtc ? json(fmt::format("NVRTC {}.{}", nvrtc->major(), nvrtc->minor())) : json(nullptr);
  }
  const auto cxx = CxxToolchain::find();
  return cxx ? json(first_line((*cxx)->identity())) : json(nullptr);
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
              {"compiler", compiler_of(device)}};
  if (device.kind == DeviceKind::cuda) out.update(asked_of_driver(device.index, limit));
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
