#include "measure/cuda.hpp"

#include "measure/gpu.hpp"

namespace tilesmith {

Result<CudaTimer> CudaTimer::create(const CudaContext& context) {
  constexpr std::int64_t kUnknownL2 = 64 << 20;
  const std::int64_t l2 = context.device().l2_bytes > 0 ? context.device().l2_bytes : kUnknownL2;
  TS_ASSIGN(CudaBuffer eviction, CudaBuffer::allocate(context, static_cast<std::size_t>(2 * l2)));
  TS_ASSIGN(CudaEvent begin, CudaEvent::create(context));
  TS_ASSIGN(CudaEvent end, CudaEvent::create(context));
  return CudaTimer(context, std::move(eviction), std::move(begin), std::move(end));
}

Result<Timing> CudaTimer::measure(cu::Stream stream, FunctionRef<Status()> enqueue,
                                  const MeasureOptions& options) const {
  const auto wait = [&] { return synchronize(*context_, stream); };
  const auto evict = [&] { return fill_bytes(*context_, eviction_.data(), 0, eviction_.bytes(), stream); };
  const auto sample = [&] { return seconds_in_stream(begin_, end_, stream, enqueue); };
  return measure_on_gpu({enqueue, wait, evict, sample}, options);
}

}  // namespace tilesmith
