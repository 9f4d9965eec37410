// The tiles of backward data, phase by phase, and where their pixels go.
#pragma once

#include "../../gemm/walk.cuh"
#include "abi.h"
#include "copies.cuh"

namespace ts::conv {

TS_DEVICE const TsCudaConvPhaseArgs& phase_args(const TsCudaGemmArgs& args) {
  return static_cast<const TsCudaConvPhaseArgs&>(args);
}

// A row of a phase as image (0) and coordinates of its places (1 to 3).
TS_DEVICE void find_place(const TsCudaConvPhase& phase, int row, int (&at)[4]) {
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    at[d + 1] = 0;
    if (d < 3 - kSpatial) continue;
    const int outer = row / phase.places[d];
    at[d + 1] = row - outer * phase.places[d];
    row = outer;
  }
  at[0] = row;
}

// A tile's `split` is its phase. The host has put the phases with most taps first.
template <int kTileM, int kTileN>
struct PhaseWalk : gemm::Walk<kTileM, kTileN, 64, 1, 1> {
  using Whole = gemm::Walk<kTileM, kTileN, 64, 1, 1>;

  TS_DEVICE explicit PhaseWalk(const TsCudaGemmArgs& a) : Whole(a) {}

  TS_DEVICE bool find(int item, int rank, gemm::Tile& t) {
    const TsCudaConvPhaseArgs& args = phase_args(this->args);
    int phase = 0;
    for (;; ++phase) {
      if (phase >= args.phases) return false;
      this->tiles_m = ceil_div(args.phase[phase].rows, kTileM);
      const int tiles = this->tiles_m * this->tiles_n * args.batch;
      if (item < tiles) break;
      item -= tiles;
    }
    t.index = item;
    t.split = phase;
    t.step = 0;
    t.steps = args.phase[phase].steps;
    const bool there = this->place(rank, t);
    t.row_limit = args.phase[phase].rows;
    return there;
  }
};

// The pixels of a phase are consecutive in its map of the result. Those of an only phase are evenly apart, so that its map
// has a group's channels in a dimension of their own, and a box may reach beyond them.
struct PhasePixels {
  static TS_DEVICE void store(const TsCudaGemmMaps& maps, const TsCudaGemmArgs& args, const gemm::Tile& t, u32 box,
                              int row, int column, int batch) {
    const TsCudaConvPhaseArgs& own = phase_args(args);
    const TsCudaConvPhase& phase = own.phase[t.split];
    if (row >= phase.rows || column >= args.n) return;  // behind a group's columns are the next group's
    const TsCudaTensorMap* const result = &static_cast<const TsCudaConvPhaseMaps&>(maps).result[t.split];
    if (own.phases == 1) {
      gemm::store_box(result, box, column, row, batch);
      return;
    }
    int at[4];
    find_place(phase, row, at);
    store_pixels(result, box, batch * args.n + column, at);
  }
};

}  // namespace ts::conv
