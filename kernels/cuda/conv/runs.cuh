// Backward weight whose pixels are cut into runs: the second launch adds up what the runs have left in memory, in their
// order.
#pragma once

#include "depthwise/steps.cuh"
#include "slices.cuh"

namespace ts::conv {

constexpr int kJoinBytes = kThreads * 16;

// The parts into which backward weight cuts a filter.
struct FilterParts {
  int d, h, w;

  explicit TS_DEVICE FilterParts(const TsCudaConvArgs& args)
      : d(static_cast<int>(args.filter[0])),
        h(ceil_div(static_cast<int>(args.filter[1]), cfg::kTapRows)),
        w(ceil_div(static_cast<int>(args.filter[2]), cfg::kTaps)) {}
  TS_DEVICE int count() const { return d * h * w; }
  TS_DEVICE FilterPart at(int number) const {
    return {number / (w * h), number / w % h * cfg::kTapRows, number % w * cfg::kTaps};
  }
};

// Partials lie as add_slices() says, a unit's runs behind one another.
template <class Wanted, class Store>
TS_DEVICE void join_runs(const TsCudaConvArgs& args, int units, int floats, unsigned char* shared, Wanted wanted,
                         Store store) {
  add_slices<kThreads>(args.partials, args.splits, units, floats, shared, wanted, store);
}

}  // namespace ts::conv
