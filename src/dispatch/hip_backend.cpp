#include "dispatch/hip_backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/hip/device.hpp"

namespace tilesmith {

Result<HipDeviceProperties> hip_device_properties(int device_index) {
  const Result<std::vector<HipDeviceInfo>>& devices = hip_devices();
  if (!devices) return std::unexpected(devices.error());
  if (device_index < 0 || static_cast<std::size_t>(device_index) >= devices->size())
    return fail(ErrorCode::not_found, fmt::format("there is no device hip:{}", device_index),
                fmt::format("hip:0 to hip:{}", devices->size() - 1));
  const HipDeviceInfo& device = (*devices)[static_cast<std::size_t>(device_index)];
  return HipDeviceProperties{device.arch, device.compute_units};
}

Result<std::unique_ptr<HipBackend>> HipBackend::make(int device_index, const HipDeviceProperties& facts) {
  TS_ASSIGN(const std::vector<HipSpec> specs, load_hip_specs());
  const auto known = std::ranges::find(specs, facts.arch, [](const HipSpec& spec) { return spec.arch.text(); });
  if (known == specs.end()) {
    std::vector<std::string_view> names;
    for (const HipSpec& spec : specs) names.push_back(spec.arch.text());
    return fail(ErrorCode::unsupported,
                fmt::format("hip:{} is a {}, for which there are no kernels", device_index, facts.arch),
                fmt::format("one of {}", fmt::join(names, ", ")));
  }
  HipSpec spec = *known;
  // A chip with fewer units has a smaller share of the reference's rates.
  const double share = static_cast<double>(facts.compute_units) / spec.reference.compute_units;
  for (auto& [type, tflops] : spec.reference.tflops) tflops *= share;
  spec.reference.compute_units = facts.compute_units;
  return std::unique_ptr<HipBackend>(new HipBackend(device_index, std::move(spec)));
}

}  // namespace tilesmith
