#include "spec/architectures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.hpp"
#include "spec/amd/chip.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

Result<std::vector<std::string>> own_archs() {
  std::vector<std::string> archs;
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  for (const CpuSpec& level : levels) archs.emplace_back(level.arch.text());
  TS_ASSIGN(const std::vector<CudaSpec> cuda, load_cuda_specs());
  for (const CudaSpec& spec : cuda) archs.emplace_back(spec.arch.text());
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  for (const HipSpec& spec : hip) archs.emplace_back(spec.arch.text());
  return archs;
}

Result<std::vector<std::string>> known_archs() {
  TS_ASSIGN(std::vector<std::string> archs, own_archs());
  const auto& chips = amd_chips();
  if (!chips) return std::unexpected(chips.error());
  for (const AmdChip& chip : *chips) archs.emplace_back(chip.arch.text());
  // Chips may have both own kernels and Composable Kernel's.
  std::ranges::sort(archs);
  archs.erase(std::ranges::unique(archs).begin(), archs.end());
  return archs;
}

Error no_own_kernels(std::string_view arch, std::string_view what) {
  const auto own = own_archs();
  if (!own) return own.error();
  if (find_amd_chip(arch))
    return {
        ErrorCode::unsupported,
        fmt::format("{} for {}: Tilesmith lists Composable Kernel's instances of this AMD chip and has no templates of "
                    "its own for it",
                    what, arch),
        fmt::format("{}; tilesmith arch has a row for {}", fmt::join(*own, ", "), arch)};
  return {ErrorCode::invalid_argument, fmt::format("there is no architecture '{}'", arch.substr(0, 64)),
          did_you_mean(arch, *own)};
}

}  // namespace tilesmith
