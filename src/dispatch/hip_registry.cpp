#include "dispatch/hip_registry.hpp"

namespace tilesmith {

Result<HipKernel> HipRegistry::find(const HipDevice& device, const KernelConfig& config, BuildPolicy build) {
  const Key128 key = key_of(config);
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  TS_ASSIGN(const Binary binary, builder_->find(config, build));
  TS_ASSIGN(const std::string code_object, binary.read());
  TS_ASSIGN(const HipModule module, HipModule::load(device, code_object));
  TS_ASSIGN(const HipKernel kernel, module.kernel(binary.entry_symbol));
  loaded_.emplace(key, kernel);
  return kernel;
}

}  // namespace tilesmith
