#include "trial/cuda.hpp"

#include "measure/cuda.hpp"
#include "trial/gpu.hpp"

namespace tilesmith {
namespace {

struct Cuda {
  using Device = CudaContext;
  using Kept = const CudaContext&;  // a context lives as long as the process
  using Current = CudaCurrent;
  using Buffer = CudaBuffer;
  using Stream = CudaStream;
  using Timer = CudaTimer;
  static constexpr DeviceKind kKind = DeviceKind::cuda;
};

}  // namespace

Result<std::unique_ptr<TrialDevice>> open_cuda_trial_device(int device_index, std::span<const NamedInput> inputs) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index));
  return GpuTrialDevice<Cuda>::create(*context, inputs);
}

}  // namespace tilesmith
