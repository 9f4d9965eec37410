#include "choose/cpu_level.hpp"

#include <fmt/format.h>

#include "vocabulary/names/native.hpp"

namespace tilesmith {

Status check_runs_on(const CpuFacts& facts, const KernelConfig& config) {
  if (facts.level(config.arch) != nullptr) return {};
  return fail(
      ErrorCode::unsupported,
      fmt::format("kernel {} is for {}, which this machine does not run", native_name(config), config.arch.text()),
      "tilesmith arch lists what runs here");
}

std::string_view name_of(const CpuFacts& facts) {
  return facts.levels.empty() ? "a machine of no level" : facts.levels.front().arch.text();
}

}  // namespace tilesmith
