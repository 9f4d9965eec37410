// Serving's direct calls on a CUDA device.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/serving/cuda_kernels.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

class CudaMergeStates final : public DirectBackend<MergeStatesCall> {
 public:
  CudaMergeStates(int device_index, const CudaSpec& spec, CudaRegistry& registry)
      : spec_(spec), kernels_(device_index, registry) {}
  [[nodiscard]] Status run(const MergeStates& call, const RunOptions& options) override;

 private:
  const CudaSpec& spec_;
  CudaServingKernels<3> kernels_;  ///< fp32, fp16, bf16
};

class CudaAppendKv final : public DirectBackend<AppendKvCall> {
 public:
  CudaAppendKv(int device_index, const CudaSpec& spec, CudaRegistry& registry)
      : spec_(spec), kernels_(device_index, registry) {}
  [[nodiscard]] Status run(const AppendKv& call, const RunOptions& options) override;

 private:
  const CudaSpec& spec_;
  CudaServingKernels<9> kernels_;  ///< the same, for each kind of cache
};

}  // namespace tilesmith
