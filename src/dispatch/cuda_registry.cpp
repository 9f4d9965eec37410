#include "dispatch/cuda_registry.hpp"

#include "runtime/cuda/stream.hpp"

namespace tilesmith {

CudaRegistry::CudaRegistry(const CudaSpec& spec) : builder_(cuda_builder(spec)) {}

Result<CudaKernel> CudaRegistry::find(const CudaContext& context, const KernelConfig& config,
                                      std::size_t dynamic_shared_bytes, BuildPolicy build) {
  const Key128 key = key_of(config);
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  TS_ASSIGN(const Binary binary, builder_->find(config, build));
  TS_ASSIGN(const std::string cubin, binary.read());
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const CudaCaptureRelaxed relaxed(context.driver());
  TS_ASSIGN(const CudaModule module, CudaModule::load(context, cubin));
  TS_ASSIGN(const CudaKernel kernel, module.kernel(binary.entry_symbol, dynamic_shared_bytes));
  loaded_.emplace(key, kernel);
  return kernel;
}

}  // namespace tilesmith
