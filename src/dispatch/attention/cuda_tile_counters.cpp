#include "dispatch/attention/cuda_tile_counters.hpp"

#include <fmt/format.h>

#include "runtime/cuda/stream.hpp"

namespace tilesmith {

Result<std::unique_ptr<CudaTileCounters>> CudaTileCounters::create(const CudaContext& context) {
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const CudaCaptureRelaxed relaxed(context.driver());
  TS_ASSIGN(CudaBuffer memory, CudaBuffer::allocate(context, (kStreams + kCaptured) * kPairBytes));
  TS_ASSIGN(const CudaStream stream, CudaStream::create(context));
  TS_TRY(fill_bytes(context, memory.data(), 0, memory.bytes(), stream.handle()));
  TS_TRY(stream.synchronize());
  return std::unique_ptr<CudaTileCounters>(new CudaTileCounters(context, std::move(memory)));
}

unsigned* CudaTileCounters::at(std::size_t pair) const {
  return reinterpret_cast<unsigned*>(static_cast<char*>(memory_.data()) + pair * kPairBytes);
}

Result<unsigned*> CudaTileCounters::of(cu::Stream stream) {
  const CudaDriver& driver = context_.driver();
  cu::CaptureStatus status{};
  TS_TRY(cuda_status(driver, driver.stream_is_capturing(stream, &status), "asking whether the stream is captured"));
  if (status != cu::CaptureStatus::none) {
    const std::size_t next = captured_.fetch_add(1, std::memory_order_relaxed);
    if (next < kCaptured) return at(kStreams + next);
    return fail(ErrorCode::out_of_memory, fmt::format("{} launches were captured into graphs", kCaptured),
                "capture fewer launches of dynamically scheduled kernels in one process");
  }
  TS_ASSIGN(const std::size_t slot, slots_.of(stream));
  return at(slot);
}

}  // namespace tilesmith
