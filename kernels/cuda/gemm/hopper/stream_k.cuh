// Stream-K: the clusters take whole tiles in full rounds. They share the remaining tiles, between one and two a cluster
// (or all tiles, where there are fewer tiles than clusters), by steps of k: each cluster takes an equal run of steps. A
// run begins in the middle of one tile and ends in the middle of another, so a cluster computes at most two partials,
// one of a tile's last steps and one of a tile's first steps, and has two places in args.partials. After Osama,
// Merrill, Cecka, Garland, Owens: "Stream-K" (PPoPP 2023); here the last cluster adds the partials instead of waiting.
#pragma once

#include "../walk.cuh"

namespace ts::gemm {

// Items of a cluster: its whole tiles, then the tiles that its run touches, numbered on with the stride of the tiles.
template <int kTileM, int kTileN, int kTileK, int kClusterM, int kClusterN>
struct SharedWalk : Walk<kTileM, kTileN, kTileK, kClusterM, kClusterN> {
  using Whole = Walk<kTileM, kTileN, kTileK, kClusterM, kClusterN>;
  using Whole::all_steps;
  int clusters, own;  // clusters there are, and this one
  int whole;          // tiles that are not shared
  int least, more;    // steps of a run, and how many clusters have one more
  int from, to;       // this cluster's run

  TS_DEVICE explicit SharedWalk(const TsCudaGemmArgs& a) : Whole(a) {
    constexpr int kCluster = kClusterM * kClusterN;
    clusters = gridDim.x / kCluster;
    own = blockIdx.x / kCluster;
    const int tiles = this->tiles_m * this->tiles_n * a.batch;
    const int rounds = tiles / clusters;
    whole = (tiles == rounds * clusters ? rounds : imax(rounds - 1, 0)) * clusters;
    const int steps = (tiles - whole) * all_steps;
    least = steps / clusters;
    more = steps - least * clusters;
    from = begin_of(own);
    to = begin_of(own + 1);
  }

  TS_DEVICE int begin_of(int cluster) const { return cluster * least + imin(cluster, more); }
  TS_DEVICE int cluster_at(int step) const {
    const int longer = more * (least + 1);
    return step < longer ? step / (least + 1) : more + (step - longer) / least;
  }

  TS_DEVICE bool find(int item, int rank, Tile& t) {
    if (item < whole) {
      t.index = item;
      t.step = 0;
      t.steps = all_steps;
    } else {
      const int shared = from / all_steps + (item - own - whole) / clusters;
      const int first = shared * all_steps;
      const int begin = imax(from, first), end = imin(to, first + all_steps);
      if (begin >= end) return false;
      t.index = whole + shared;
      t.step = begin - first;
      t.steps = end - begin;
    }
    t.split = 0;
    return this->place(rank, t);
  }

  // The partials of tile t: how many, which one is this cluster's, and where each cluster leaves its own.
  struct Parts {
    int first, count, own;

    // The number of a place; every cluster has two.
    TS_DEVICE int place(int part) const { return 2 * (first + part) + (part == 0); }
  };
  TS_DEVICE Parts partials_of(const Tile& t) const {
    const int begin = (t.index - whole) * all_steps;
    const int first = cluster_at(begin);
    return {first, cluster_at(begin + all_steps - 1) - first + 1, own - first};
  }
};

}  // namespace ts::gemm
