// Joins an item's pieces without memory: the blocks of a cluster have one each, leave their outputs in shared memory, and
// each joins a share of the rows, in ascending order of the pieces. All threads of a cluster meet twice: when outputs can
// be read, and when they have been.
#pragma once

#include "row_results.cuh"

namespace ts {

TS_DEVICE void clusters_meet() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// A row's outputs lie where queries and keys were, its state behind them. Of four threads that store eight columns of a
// row, and the next rows' beside them, no two meet in a bank.
constexpr int kClusterPitch = 4 * (ceil_div(cfg::kHeadDimV, 32) * 32 + 8);
static_assert(kTileM * kClusterPitch <= kProbabilitiesOffset && kClusterPitch >= 4 * cfg::kHeadDimV + 8,
              "a piece's outputs fit where its queries and keys were");

template <class Work, int kOutputs>
TS_DEVICE void join_in_cluster(const Work& work, const float (&o)[kOutputs], const State (&states)[2], int first_row,
                               int first_column) {
  constexpr int kUnits = ts_decode_join_units(cfg::kHeadDimV), kTogether = 4;
  const auto& args = work.args;
  const int lane = threadIdx.x & 31, columns = cfg::kHeadDimV - first_column;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const u32 to = work.shared + (first_row + 8 * r) * kClusterPitch;
#pragma unroll
    for (int i = 0; i < kOutputs; i += 4)
      if (2 * i < columns)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 4 * (first_column + 2 * i + 2 * (lane & 3))),
                     "f"(o[i + 2 * r]), "f"(o[i + 2 * r + 1])
                     : "memory");
    if (first_column == 0 && (lane & 3) == 0)
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 4 * cfg::kHeadDimV), "f"(states[r].base), "f"(states[r].sum)
                   : "memory");
  }
  clusters_meet();
  const int rows = work.item.rows(args), share = ceil_div(rows, args.cluster);
  const int end = imin(rows, (work.number + 1) * share);
#pragma unroll 1
  for (int row = work.number * share + static_cast<int>(threadIdx.x / 32); row < end; row += kConsumerThreads / 32) {
    Joined<4 * kUnits> joined;
    const auto column = [&](int unit) { return imin(unit * TS_DECODE_JOIN_COLUMNS + 4 * lane, cfg::kHeadDimV - 4); };
#pragma unroll 1
    for (int part = 0; part < args.cluster; part += kTogether) {
      float values[kTogether][4 * kUnits];
      State others[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const u32 from = address_in_block(work.shared + row * kClusterPitch, imin(part + i, args.cluster - 1));
        others[i] = load_state_in_cluster(from + 4 * cfg::kHeadDimV);
#pragma unroll
        for (int j = 0; j < kUnits; ++j) load_part_in_cluster(values[i] + 4 * j, from + 4 * column(j));
      }
      joined.add_all(others, values, args.cluster - part);
    }
#pragma unroll
    for (int j = 0; j < kUnits; ++j)
      if (j * TS_DECODE_JOIN_COLUMNS + 4 * lane < cfg::kHeadDimV) work.store(row, column(j), joined.state, joined.o + 4 * j);
  }
  __syncwarp();
  clusters_meet();
}

}  // namespace ts
