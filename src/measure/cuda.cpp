#include "measure/cuda.hpp"

#include <algorithm>

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
  TS_TRY(enqueue());  // loads code, fills caches of the driver
  TS_TRY(synchronize(*context_, stream));
  Timing timing;
  std::vector<double>& sorted = timing.samples;
  double spent = 0;
  while (static_cast<int>(sorted.size()) < std::max(1, options.max_samples)) {
    if (options.cold) TS_TRY(fill_bytes(*context_, eviction_.data(), 0, eviction_.bytes(), stream));
    TS_TRY(begin_.record(stream));
    TS_TRY(enqueue());
    TS_TRY(end_.record(stream));
    TS_TRY(end_.synchronize());
    TS_ASSIGN(const double seconds, CudaEvent::seconds_between(begin_, end_));
    spent += seconds;
    sorted.insert(std::ranges::upper_bound(sorted, seconds), seconds);
    if (is_enough(timing, spent, options)) break;
  }
  return timing;
}

}  // namespace tilesmith
