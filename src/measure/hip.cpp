#include "measure/hip.hpp"

#include "measure/gpu.hpp"

namespace tilesmith {

Result<HipTimer> HipTimer::create(const HipDevice& device) {
  TS_ASSIGN(HipBuffer eviction, HipBuffer::allocate(device, kEvictionBytes));
  TS_ASSIGN(HipEvent begin, HipEvent::create(device));
  TS_ASSIGN(HipEvent end, HipEvent::create(device));
  return HipTimer(device, std::move(eviction), std::move(begin), std::move(end));
}

Result<Timing> HipTimer::measure(hip::Stream stream, FunctionRef<Status()> enqueue,
                                 const MeasureOptions& options) const {
  const auto wait = [&] { return synchronize(device_, stream); };
  const auto evict = [&] { return fill_bytes(device_, eviction_.data(), 0, eviction_.bytes(), stream); };
  const auto sample = [&] { return seconds_in_stream(begin_, end_, stream, enqueue); };
  return measure_on_gpu({enqueue, wait, evict, sample}, options);
}

}  // namespace tilesmith
