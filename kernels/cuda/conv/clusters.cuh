// Adds up partial sums that the blocks of a cluster have in shared memory, without a second launch (sm_90a).
#pragma once

#include "../common/came_last.cuh"
#include "../common/cluster_sync.cuh"
#include "../gemm/types.cuh"

namespace ts::conv {

using namespace ts::gemm;

constexpr int kLoadedAtATime = 4;  // loads of a thread under way

// What the cluster's blocks have at the place `own` of their shared memory, in their order.
template <int kBlocks>
TS_DEVICE void add_of_cluster(u32 own, float (&total)[4]) {
  float parts[kBlocks][4];
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(parts[block][0]), "=f"(parts[block][1]), "=f"(parts[block][2]), "=f"(parts[block][3])
                 : "r"(there)
                 : "memory");
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    total[e] = parts[0][e];
#pragma unroll
    for (int block = 1; block < kBlocks; ++block) total[e] += parts[block][e];
  }
}

// Every block of `clusters` clusters has `sums`, quads of floats, at the same place of its shared memory. Each block of a
// cluster adds up a share of the quads. Of several clusters they leave it in `partials` ([cluster][quad]), and whichever
// comes last to a share, by its one of kBlocks counters, adds up all clusters': so bits do not depend on who that was.
// store(quad, total) gets the quads that are wanted. `flag`: 4 bytes of shared memory outside the sums. All threads of a
// block call this, with sums that its other threads have written.
template <int kThreads, int kBlocks, class Wanted, class Store>
TS_DEVICE void join_clusters(u32 sums, int quads, int rank, int cluster, int clusters, float* partials, u32* counters,
                             u32 flag, Wanted wanted, Store store) {
  const int thread = static_cast<int>(threadIdx.x), share = ceil_div(quads, kBlocks);
  const int first = rank * share + thread, last = imin((rank + 1) * share, quads);
  cluster_sync();
  for (int quad = first; quad < last; quad += kThreads) {
    if (!wanted(quad)) continue;
    float total[4];
    add_of_cluster<kBlocks>(sums + quad * 16, total);
    if (clusters == 1)
      store(quad, total);
    else
      *reinterpret_cast<float4*>(partials + (static_cast<i64>(cluster) * quads + quad) * 4) =
          make_float4(total[0], total[1], total[2], total[3]);
  }
  __syncwarp();
  cluster_sync();  // no block's sums are read any more
  if (clusters == 1 || !came_last(counters + rank, clusters, thread, flag, [] { __syncthreads(); })) return;
  for (int quad = first; quad < last; quad += kThreads) {
    if (!wanted(quad)) continue;
    float total[4] = {};
    for (int c = 0; c < clusters; c += kLoadedAtATime) {
      u32 loaded[kLoadedAtATime][4] = {};
#pragma unroll
      for (int i = 0; i < kLoadedAtATime; ++i)
        if (c + i < clusters)
          load_chunk_uncached(loaded[i], partials + (static_cast<i64>(c + i) * quads + quad) * 4);
#pragma unroll
      for (int i = 0; i < kLoadedAtATime; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) total[e] += as_float(loaded[i][e]);
      }
    }
    store(quad, total);
  }
}

}  // namespace ts::conv
