#include "trial/cuda_bench.hpp"

#include <vector>

namespace tilesmith {

Result<CudaBench> CudaBench::create(const CudaContext& context, std::span<const MemoryRange> inputs) {
  TS_ASSIGN(CudaStream stream, CudaStream::create(context));
  CudaBench bench(context, std::move(stream));
  for (const MemoryRange& range : inputs) {
    if (range.bytes == 0) continue;
    TS_ASSIGN(CudaBuffer copy, bench.allocate(range.bytes));
    TS_TRY(copy_to_device(context, copy.data(), range.data, range.bytes, bench.stream()));
    bench.inputs_.emplace(range.data, std::move(copy));
  }
  TS_TRY(bench.synchronize());
  return bench;
}

Status CudaBench::run_guarded(std::span<GuardedBuffer* const> buffers,
                              FunctionRef<Status(std::span<std::byte* const> tensors)> run) const {
  std::vector<CudaBuffer> copies;
  std::vector<std::byte*> tensors;
  for (GuardedBuffer* const buffer : buffers) {
    const std::span<const std::byte> storage = buffer->storage();
    TS_ASSIGN(CudaBuffer copy, allocate(storage.size()));
    TS_TRY(copy_to_device(*context_, copy.data(), storage.data(), storage.size(), stream()));
    tensors.push_back(static_cast<std::byte*>(copy.data()) + buffer->offset());
    copies.push_back(std::move(copy));
  }
  TS_TRY(run(tensors));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::span<std::byte> storage = buffers[i]->storage();
    TS_TRY(copy_to_host(*context_, storage.data(), copies[i].data(), storage.size(), stream()));
  }
  return synchronize();
}

Result<Timing> CudaBench::time(FunctionRef<Status()> enqueue, const MeasureOptions& options) const {
  TS_ASSIGN(const CudaTimer timer, CudaTimer::create(*context_));
  return timer.measure(stream(), enqueue, options);
}

}  // namespace tilesmith
