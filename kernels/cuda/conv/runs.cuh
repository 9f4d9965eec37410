// Backward weight whose pixels are cut into runs: the second launch adds up what the runs have left in memory, in their
// order. Some threads of a block have the same four sums of a different slice of the runs each.
#pragma once

#include "depthwise/steps.cuh"

namespace ts::conv {

constexpr int kSlices = 8;
constexpr int kQuadsTogether = kThreads / kSlices;
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

// Partials of `floats` each, a multiple of 4, lie [unit][run][quad][4]. Of the quads that are `wanted`, store(unit, quad,
// total) gets the sums.
template <class Wanted, class Store>
TS_DEVICE void join_runs(const TsCudaConvArgs& args, int units, int floats, unsigned char* shared, Wanted wanted,
                         Store store) {
  const int quads = floats / 4;
  static_assert(kThreads % kSlices == 0);
  const int own = static_cast<int>(threadIdx.x) % kQuadsTogether, slice = static_cast<int>(threadIdx.x) / kQuadsTogether;
  const int size = ceil_div(args.splits, kSlices), first = slice * size, last = imin(first + size, args.splits);
  float4* const places = reinterpret_cast<float4*>(shared);  // [slice][quad]
  const int all = units * quads;
  for (int begin = static_cast<int>(blockIdx.x) * kQuadsTogether; begin < all;
       begin += static_cast<int>(gridDim.x) * kQuadsTogether) {
    const int at = begin + own, unit = at / quads, quad = at - unit * quads;
    const bool there = at < all && wanted(quad);
    const float* const from = args.partials + static_cast<i64>(unit) * args.splits * floats + quad * 4;
    float total[4] = {};
    if (there) {
#pragma unroll 8
      for (int run = first; run < last; ++run) {
        u32 loaded[4];
        load_chunk_uncached(loaded, from + static_cast<i64>(run) * floats);
#pragma unroll
        for (int e = 0; e < 4; ++e) total[e] += as_float(loaded[e]);
      }
    }
    places[threadIdx.x] = make_float4(total[0], total[1], total[2], total[3]);
    __syncthreads();
    if (there && slice == 0) {
#pragma unroll
      for (int s = 1; s < kSlices; ++s) {
        const float4 other = places[s * kQuadsTogether + own];
        total[0] += other.x, total[1] += other.y, total[2] += other.z, total[3] += other.w;
      }
      store(unit, quad, total);
    }
    __syncthreads();
  }
}

}  // namespace ts::conv
