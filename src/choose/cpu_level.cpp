#include "choose/cpu_level.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.hpp"
#include "spec/architectures.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

Status check_runs_on(const CpuFacts& facts, const KernelConfig& config) {
  if (facts.level(config.arch) != nullptr) return {};
  TS_ASSIGN(const std::vector<std::string> known, known_archs());
  if (std::ranges::find(known, config.arch.text()) == known.end())
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} is for {}, which is no architecture", native_name(config), config.arch.text()),
                did_you_mean(config.arch.text(), known));
  return fail(
      ErrorCode::unsupported,
      fmt::format("kernel {} is for {}, which this machine does not run", native_name(config), config.arch.text()),
      "tilesmith arch lists what runs here");
}

std::string_view name_of(const CpuFacts& facts) {
  return facts.levels.empty() ? "a machine of no level" : facts.levels.front().arch.text();
}

}  // namespace tilesmith
