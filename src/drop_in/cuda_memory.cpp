#include "drop_in/gpu_memory.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"

namespace tilesmith::drop_in {
namespace {

struct Cuda {
  using Device = CudaContext;
  using Kept = const CudaContext&;  // a context lives as long as the process
  using Current = CudaCurrent;
  using Buffer = CudaBuffer;
  using Stream = cu::Stream;
  using Event = CudaEvent;
};

}  // namespace

Result<std::unique_ptr<Memory>> open_cuda_memory(int device, void* stream) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device));
  return std::make_unique<GpuMemory<Cuda>>(*context, stream);
}

}  // namespace tilesmith::drop_in
