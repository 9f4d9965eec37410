#include "runtime/cpu/kernel.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tilesmith {

Result<CpuKernel> CpuKernel::wrap(const TsCpuKernel* table, const Key128& key) {
  if (table->abi_version != TS_CPU_ABI_VERSION)
    return fail(ErrorCode::load_failed,
                fmt::format("kernel has ABI version {}, this program {}", table->abi_version, TS_CPU_ABI_VERSION));
  if (table->stage_count < 1 || table->stage_count > TS_CPU_MAX_STAGES)
    return fail(ErrorCode::load_failed, fmt::format("kernel has {} stages", table->stage_count));
  if (const Key128 built{table->key[0], table->key[1]}; built != key)
    return fail(ErrorCode::load_failed, fmt::format("kernel has key {}, expected {}", built.hex(), key.hex()));
  return CpuKernel(table);
}

Result<CpuKernel> CpuKernel::load(const std::filesystem::path& shared_object, const std::string& symbol,
                                  const Key128& key) {
  void* handle = ::dlopen(shared_object.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return fail(ErrorCode::load_failed, fmt::format("cannot load {}: {}", shared_object.string(), ::dlerror()));
  const auto* table = static_cast<const TsCpuKernel*>(::dlsym(handle, symbol.c_str()));
  if (table == nullptr) {
    ::dlclose(handle);
    return fail(ErrorCode::load_failed, fmt::format("{} does not export {}", shared_object.string(), symbol));
  }
  auto kernel = wrap(table, key);
  if (!kernel) return std::unexpected(kernel.error().in(shared_object.string()));
  return kernel;
}

}  // namespace tilesmith
