#include "dispatch/cuda_registry.hpp"

#include "runtime/cuda/stream.hpp"

namespace tilesmith {

namespace {

Result<CudaKernel> load(const CudaContext& context, const Binary& binary, std::size_t dynamic_shared_bytes) {
  TS_ASSIGN(const std::string cubin, binary.read());
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const CudaCaptureRelaxed relaxed(context.driver());
  TS_ASSIGN(const CudaModule module, CudaModule::load(context, cubin));
  return module.kernel(binary.entry_symbol, dynamic_shared_bytes);
}

}  // namespace

CudaRegistry::CudaRegistry(const CudaSpec& spec) : builder_(cuda_builder(spec)) {}

Result<CudaKernel> CudaRegistry::find(const CudaContext& context, const KernelConfig& config,
                                      std::size_t dynamic_shared_bytes, BuildPolicy build) {
  const Key128 key = key_of(config);
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  TS_ASSIGN(const Binary binary, builder_->find(config, build));
  TS_ASSIGN(const CudaKernel kernel, load(context, binary, dynamic_shared_bytes));
  loaded_.emplace(key, kernel);
  return kernel;
}

Result<CudaKernel> CudaRegistry::find(const CudaContext& context, const Source& source, BuildPolicy build) {
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_by_name_.find(source.name); found != loaded_by_name_.end()) return found->second;
  TS_ASSIGN(const Binary binary, builder_->find(source, build));
  TS_ASSIGN(const CudaKernel kernel, load(context, binary, 0));
  loaded_by_name_.emplace(source.name, kernel);
  return kernel;
}

}  // namespace tilesmith
