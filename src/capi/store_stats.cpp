#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"
#include "jit/counters.hpp"
#include "tilesmith.h"

tilesmith_status tilesmith_get_store_stats(tilesmith_store_stats* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    const BuildCounters& counted = build_counters();
    return capi::write_struct("tilesmith_store_stats", out,
                              {.struct_size = sizeof *out,
                               .hits = counted.hits.load(),
                               .misses = counted.misses.load(),
                               .builds = counted.builds.load(),
                               .failed_builds = counted.failed_builds.load(),
                               .fallbacks = counted.fallbacks.load(),
                               .build_seconds = 1e-9 * static_cast<double>(counted.build_ns.load())});
  });
}
