#include "measure/gpu.hpp"

#include <algorithm>

namespace tilesmith {

Result<Timing> measure_on_gpu(const GpuTimerSteps& steps, const MeasureOptions& options) {
  TS_TRY(steps.enqueue());  // loads code, fills caches of the driver
  TS_TRY(steps.synchronize());
  Timing timing;
  std::vector<double>& sorted = timing.samples;
  double spent = 0;
  while (static_cast<int>(sorted.size()) < std::max(1, options.max_samples)) {
    if (options.cold) TS_TRY(steps.evict());
    TS_ASSIGN(const double seconds, steps.sample());
    spent += seconds;
    sorted.insert(std::ranges::upper_bound(sorted, seconds), seconds);
    if (is_enough(timing, spent, options)) break;
  }
  return timing;
}

}  // namespace tilesmith
