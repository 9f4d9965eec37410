#include "dispatch/cpu_registry.hpp"

#include <fmt/format.h>

#include "codegen/essential.hpp"
#include "codegen/generate.hpp"
#include "jit/cxx_toolchain.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

CpuRegistry::CpuRegistry(const CpuMachine& machine)
    : machine_(&machine),
      builder_(
          [&machine](const KernelConfig& config) -> Result<Source> {
            if (const CpuSpec* level = machine.level(config.arch)) return generate(config, *level);
            return fail(ErrorCode::unsupported, fmt::format("this machine does not run {}", config.arch.text()));
          },
          [] { return CxxToolchain::find(); }) {
  for (const TsCpuKernel* table : essential_kernels()) linked_.emplace(Key128{table->key[0], table->key[1]}, table);
}

std::vector<KernelConfig> CpuRegistry::essential() const {
  // Read from the kernels themselves: which tiles the set has was decided by the specs of the machine that built the
  // library, not by this one's.
  std::vector<KernelConfig> configs;
  for (const TsCpuKernel* table : essential_kernels())
    if (auto config = parse_native_name(table->name); config && machine_->level(config->arch) != nullptr)
      configs.push_back(std::move(*config));
  return configs;
}

Result<CpuKernel> CpuRegistry::find(const KernelConfig& config, BuildPolicy build) {
  const Key128 key = key_of(config);
  // One lock for the whole of it: planning is rare, and a second caller that needs the same new kernel should wait for
  // it anyway.
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  TS_ASSIGN(const CpuKernel kernel, [&]() -> Result<CpuKernel> {
    if (const auto found = linked_.find(key); found != linked_.end()) return CpuKernel::wrap(found->second, key);
    TS_ASSIGN(const Binary binary, builder_.find(config, build));
    return CpuKernel::load(binary.path, binary.entry_symbol, key);
  }());
  loaded_.emplace(key, kernel);
  return kernel;
}

std::vector<Status> CpuRegistry::build(std::span<const KernelConfig> configs, int workers,
                                       const BuildCounter& progress) {
  std::vector<Status> statuses(configs.size());
  std::vector<KernelConfig> missing;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (linked_.contains(key_of(configs[i]))) continue;
    missing.push_back(configs[i]);
    places.push_back(i);
  }
  std::vector<Status> built = builder_.build(missing, workers, progress);
  for (std::size_t i = 0; i < built.size(); ++i) statuses[places[i]] = std::move(built[i]);
  return statuses;
}

}  // namespace tilesmith
