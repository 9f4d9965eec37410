#include "dispatch/registry.hpp"

#include <fmt/format.h>

#include "codegen/essential.hpp"
#include "codegen/generate.hpp"
#include "jit/build.hpp"
#include "jit/cxx_toolchain.hpp"
#include "kernel/native_name.hpp"

namespace tilesmith {

Registry::Registry(const CpuMachine& machine) : machine_(&machine) {
  for (const TsCpuKernel* table : essential_kernels()) linked_.emplace(Key128{table->key[0], table->key[1]}, table);
}

Registry::~Registry() = default;

std::vector<KernelConfig> Registry::essential() const {
  // Read from the kernels themselves: which tiles the set has was decided by the specs of the machine that built the
  // library, not by this one's.
  std::vector<KernelConfig> configs;
  for (const TsCpuKernel* table : essential_kernels())
    if (auto config = parse_native_name(table->name); config && machine_->level(config->arch) != nullptr)
      configs.push_back(std::move(*config));
  return configs;
}

Result<CpuKernel> Registry::find(const KernelConfig& config, BuildPolicy build) {
  const Key128 key = key_of(config);
  // One lock for the whole of it: planning is rare, and a second caller that needs the same new kernel should wait for
  // it anyway.
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  TS_ASSIGN(const CpuKernel kernel, acquire(config, key, build));
  loaded_.emplace(key, kernel);
  return kernel;
}

Result<CpuKernel> Registry::acquire(const KernelConfig& config, const Key128& key, BuildPolicy policy) {
  if (const auto found = linked_.find(key); found != linked_.end()) return CpuKernel::wrap(found->second, key);

  const CpuSpec* spec = machine_->level(config.arch);
  if (spec == nullptr)
    return fail(ErrorCode::unsupported, fmt::format("this machine does not run {}", config.arch.text()));
  TS_ASSIGN(const Source source, generate(config, *spec));
  TS_TRY(open_toolchain());
  TS_ASSIGN(const Binary binary, [&]() -> Result<Binary> {
    if (policy == BuildPolicy::allowed) return tilesmith::build(*store_, *toolchain_, source);
    TS_ASSIGN(const EntryKey entry, entry_key(source, toolchain_->identity()));
    TS_ASSIGN(std::optional<Binary> stored, store_->find(entry));
    if (!stored)
      return fail(ErrorCode::not_found,
                  fmt::format("kernel {} is not in the store, and compiling is not allowed", native_name(config)));
    return *stored;
  }());
  return CpuKernel::load(binary.path, source.entry_symbol, key);
}

std::vector<Status> Registry::build(std::span<const KernelConfig> configs, int workers,
                                    const std::function<void(std::size_t, std::size_t, std::size_t)>& progress) {
  std::vector<Status> statuses(configs.size());
  std::vector<Source> sources;
  std::vector<std::size_t> owners;  // the config each source belongs to
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (linked_.contains(key_of(configs[i]))) continue;
    const CpuSpec* spec = machine_->level(configs[i].arch);
    Result<Source> source =
        spec != nullptr ? generate(configs[i], *spec)
                        : Result<Source>(fail(ErrorCode::unsupported,
                                              fmt::format("this machine does not run {}", configs[i].arch.text())));
    if (!source) {
      statuses[i] = std::unexpected(source.error());
      continue;
    }
    sources.push_back(std::move(*source));
    owners.push_back(i);
  }
  if (sources.empty()) return statuses;
  if (const Status opened = open_toolchain(); !opened) {
    for (const std::size_t owner : owners) statuses[owner] = opened;
    return statuses;
  }
  BuildOptions options;
  options.workers = workers;
  options.batch = 4;  // one compiler start for several kernels, while a short list still spreads over the workers
  if (progress) options.progress = [&](const BuildProgress& p) { progress(p.done, p.total, p.failed); };
  const std::vector<Result<Binary>> built = tilesmith::build(*store_, *toolchain_, sources, options);
  for (std::size_t i = 0; i < built.size(); ++i)
    if (!built[i]) statuses[owners[i]] = std::unexpected(built[i].error());
  return statuses;
}

Status Registry::open_toolchain() {
  if (toolchain_ != nullptr) return {};
  if (!no_toolchain_) {
    if (store_ == nullptr) {
      auto store = Store::open();
      if (!store) return std::unexpected(store.error());
      store_ = std::move(*store);
    }
    auto toolchain = CxxToolchain::find();
    if (toolchain) {
      toolchain_ = std::move(*toolchain);
      return {};
    }
    no_toolchain_ = toolchain.error();  // looking again on every plan would cost more than it could find
  }
  return std::unexpected(*no_toolchain_);
}

}  // namespace tilesmith
