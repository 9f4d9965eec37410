// Adds up partials that blocks have left in memory. Some threads of a block have the same four sums of a different slice
// of the partials each, so that few sums of many partials do not take long; the order depends on their number alone.
#pragma once

#include "../gemm/types.cuh"

namespace ts::conv {

using namespace ts::gemm;

constexpr int kMostSlices = 8;
constexpr int kAddedAtATime = 4;  // loads of a thread under way; a slice has as many partials, or more

// Partials of `floats` each, a multiple of 4, lie [unit][part][quad][4]. Of the quads that are `wanted`, store(unit, quad,
// total) gets the sums. `shared` has 16 bytes for each of kThreads threads of a block.
template <int kThreads, class Wanted, class Store>
TS_DEVICE void add_slices(const float* partials, int parts, int units, int floats, unsigned char* shared, Wanted wanted,
                          Store store) {
  static_assert(kThreads % kMostSlices == 0);
  int slices = kMostSlices;
  while (slices > 1 && parts < slices * kAddedAtATime) slices /= 2;
  const int together = kThreads / slices, quads = floats / 4;
  const int slice = static_cast<int>(threadIdx.x) / together, own = static_cast<int>(threadIdx.x) - slice * together;
  const int size = ceil_div(parts, slices), first = slice * size, last = imin(first + size, parts);
  float4* const places = reinterpret_cast<float4*>(shared);  // [slice][quad]
  const int all = units * quads;
  for (int begin = static_cast<int>(blockIdx.x) * together; begin < all;
       begin += static_cast<int>(gridDim.x) * together) {
    const int at = begin + own, unit = at / quads, quad = at - unit * quads;
    const bool there = at < all && wanted(quad);
    const float* const from = partials + static_cast<i64>(unit) * parts * floats + quad * 4;
    float total[4] = {};
    for (int part = first; part < last && there; part += kAddedAtATime) {
      u32 loaded[kAddedAtATime][4] = {};
#pragma unroll
      for (int i = 0; i < kAddedAtATime; ++i)
        if (part + i < last) load_chunk_uncached(loaded[i], from + static_cast<i64>(part + i) * floats);
#pragma unroll
      for (int i = 0; i < kAddedAtATime; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) total[e] += as_float(loaded[i][e]);
      }
    }
    if (slices > 1) {
      places[threadIdx.x] = make_float4(total[0], total[1], total[2], total[3]);
      __syncthreads();
    }
    if (there && slice == 0) {
      for (int s = 1; s < slices; ++s) {
        const float4 other = places[s * together + own];
        total[0] += other.x, total[1] += other.y, total[2] += other.z, total[3] += other.w;
      }
      store(unit, quad, total);
    }
    if (slices > 1) __syncthreads();
  }
}

}  // namespace ts::conv
