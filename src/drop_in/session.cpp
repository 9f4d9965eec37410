#include "drop_in/session.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "runtime/hip/device.hpp"

namespace tilesmith::drop_in {

Result<Device> chosen_device() {
  if (const auto named = env("TILESMITH_CK_DEVICE")) {
    Result<Device> device = parse_device(*named);
    if (!device) return std::unexpected(device.error().in("TILESMITH_CK_DEVICE"));
    return *device;
  }
  return hip_devices() ? Device{DeviceKind::hip, 0} : Device{};
}

void KernelNames::add(const ChoiceInfo& choice) {
  for (const CandidateInfo& candidate : choice.candidates)
    if (std::ranges::find(names_, candidate.recipe) == names_.end()) names_.push_back(candidate.recipe);
}

}  // namespace tilesmith::drop_in
