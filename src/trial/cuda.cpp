#include "trial/cuda.hpp"

#include "measure/cuda.hpp"
#include "runtime/cuda/stream.hpp"
#include "trial/gpu.hpp"

namespace tilesmith {
namespace {

/// The thread's own default stream. The library keeps memory for every stream that ran kernels, so a new stream for
/// each trial would fill the device in a run over many problems.
class ThreadStream {
 public:
  [[nodiscard]] static Result<ThreadStream> create(const CudaContext& context) { return ThreadStream(context); }

  [[nodiscard]] static cu::Stream handle() { return cu::per_thread_stream(); }
  [[nodiscard]] Status synchronize() const { return tilesmith::synchronize(*context_, handle()); }

 private:
  explicit ThreadStream(const CudaContext& context) : context_(&context) {}

  const CudaContext* context_;
};

struct Cuda {
  using Device = CudaContext;
  using Kept = const CudaContext&;  // a context lives as long as the process
  using Current = CudaCurrent;
  using Buffer = CudaBuffer;
  using Stream = ThreadStream;
  using Timer = CudaTimer;
  static constexpr DeviceKind kKind = DeviceKind::cuda;
};

}  // namespace

Result<std::unique_ptr<TrialDevice>> open_cuda_trial_device(int device_index, std::span<const NamedInput> inputs) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index));
  return GpuTrialDevice<Cuda>::create(*context, inputs);
}

}  // namespace tilesmith
