// Joins an item's pieces through the shared memory of a cluster: its blocks have a piece each, leave their outputs in shared
// memory, and each joins a share of the rows, in ascending order of the pieces. All threads of a cluster meet twice: when
// outputs can be read, and when they have been. Clusters have all of an item's pieces, or are pairs of blocks: of an item
// with several each leaves its share as a partial, and the last that comes to a share joins all pairs'.
#pragma once

#include "row_results.cuh"

namespace ts {

TS_DEVICE void arrive_in_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}
TS_DEVICE void wait_in_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
TS_DEVICE void clusters_meet() {
  arrive_in_cluster();
  wait_in_cluster();
}
TS_DEVICE int blocks_of_cluster() {
  int blocks;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
  return blocks;
}

// A row's outputs lie where queries and keys were, its state behind them. Of four threads that store eight columns of a
// row, and the next rows' beside them, no two meet in a bank.
constexpr int kClusterPitch = 4 * (ceil_div(cfg::kHeadDimV, 32) * 32 + 8);
static_assert(kTileM * kClusterPitch <= kResultBytes && kClusterPitch >= 4 * cfg::kHeadDimV + 8,
              "a piece's outputs fit where its queries and keys were");

template <class Work>
class ClusterJoin {
 public:
  TS_DEVICE ClusterJoin(const Work& of_piece, int item_number) : work_(of_piece), item_number_(item_number) {
    const int blocks = blocks_of_cluster(), rows = work_.item.rows(work_.args), share = ceil_div(rows, blocks);
    rank_ = work_.number % blocks;
    pair_ = work_.number / blocks;
    pairs_ = work_.args.cluster / blocks;
    first_ = rank_ * share;
    end_ = imin(rows, first_ + share);
  }

  template <int kOutputs>
  TS_DEVICE void run(const float (&o)[kOutputs], const State (&states)[2], int first_row, int first_column) const {
    leave(o, states, first_row, first_column);
    clusters_meet();
    if (blocks_of_cluster() == 2) return join_pairs();
    join_rows(work_.args.cluster, from_block(), to_output());
    __syncwarp();
    clusters_meet();
  }

 private:
  // What a lane joins of a row: four columns of each unit.
  static constexpr int kUnits = ts_decode_join_units(cfg::kHeadDimV), kTogether = 4;
  static constexpr int kWarps = kConsumerThreads / 32;
  static constexpr int kRowsOfPair = kTileM / 2 / kWarps;  // of a warp
  static constexpr int kRowsAtOnce = kRowsOfPair < 2 ? 1 : 2;
  using Row = Joined<4 * kUnits>;
  TS_DEVICE static int lane() { return threadIdx.x & 31; }
  TS_DEVICE static int column(int unit) {
    return imin(unit * TS_DECODE_JOIN_COLUMNS + 4 * lane(), cfg::kHeadDimV - 4);
  }

  // The i-th row of the warp.
  TS_DEVICE int row(int i) const { return first_ + static_cast<int>(threadIdx.x / 32) + i * kWarps; }

  template <int kOutputs>
  TS_DEVICE void leave(const float (&o)[kOutputs], const State (&states)[2], int first_row, int first_column) const {
    const int columns = cfg::kHeadDimV - first_column;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 to = work_.shared + (first_row + 8 * r) * kClusterPitch;
#pragma unroll
      for (int i = 0; i < kOutputs; i += 4)
        if (2 * i < columns)
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 4 * (first_column + 2 * i + 2 * (lane() & 3))),
                       "f"(o[i + 2 * r]), "f"(o[i + 2 * r + 1])
                       : "memory");
      if (first_column == 0 && (lane() & 3) == 0)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 4 * cfg::kHeadDimV), "f"(states[r].base),
                     "f"(states[r].sum)
                     : "memory");
    }
  }

  // What brings a lane's columns of a row's part, and what takes those of a row.
  TS_DEVICE auto from_block() const {
    return [this](int block, int row, float* values, State& state) {
      const u32 from = address_in_block(work_.shared + row * kClusterPitch, block);
      state = load_state_in_cluster(from + 4 * cfg::kHeadDimV);
#pragma unroll
      for (int j = 0; j < kUnits; ++j) load_part_in_cluster(values + 4 * j, from + 4 * column(j));
    };
  }
  TS_DEVICE auto from_pair() const {
    return [this](int pair, int row, float* values, State& state) {
      const float* const from = work_.part_row(item_number_, pair, row);
      state = load_part_state(from + cfg::kHeadDimV);
#pragma unroll
      for (int j = 0; j < kUnits; ++j) load_part(values + 4 * j, from + column(j));
    };
  }
  TS_DEVICE auto to_output() const {
    return [this](int row, int column, const State& state, const float* o) { work_.store(row, column, state, o); };
  }
  TS_DEVICE auto to_pair() const {
    return [this](int row, int column, const State& state, const float* o) {
      work_.store_in_part(item_number_, pair_, row, column, state, o);
    };
  }
  template <class Use>
  TS_DEVICE void use_row(int row, const Row& joined, Use use) const {
#pragma unroll
    for (int j = 0; j < kUnits; ++j)
      if (j * TS_DECODE_JOIN_COLUMNS + 4 * lane() < cfg::kHeadDimV) use(row, column(j), joined.state, joined.o + 4 * j);
  }

  // Joins `count` parts of the share's rows, a warp each.
  template <class Load, class Use>
  TS_DEVICE void join_rows(int count, Load load, Use use) const {
#pragma unroll 1
    for (int i = 0; row(i) < end_; ++i) {
      Row joined;
#pragma unroll 1
      for (int part = 0; part < count; part += kTogether) {
        float values[kTogether][4 * kUnits];
        State states[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) load(imin(part + j, count - 1), row(i), values[j], states[j]);
        joined.add_all(states, values, count - part);
      }
      use_row(row(i), joined, use);
    }
  }

  // The pair's rows stay in registers: of two pairs the last reads the other's alone.
  TS_DEVICE void join_pairs() const {
    Row rows[kRowsOfPair];
#pragma unroll
    for (int i = 0; i < kRowsOfPair; i += kRowsAtOnce) {
      if (row(i) >= end_) continue;
      float values[kRowsAtOnce][2][4 * kUnits];
      State states[kRowsAtOnce][2];
#pragma unroll
      for (int j = 0; j < 2 * kRowsAtOnce; ++j)
        from_block()(j % 2, imin(row(i + j / 2), end_ - 1), values[j / 2][j % 2], states[j / 2][j % 2]);
#pragma unroll
      for (int j = 0; j < kRowsAtOnce; ++j) rows[i + j].add_all(states[j], values[j], 2);
    }
    __syncwarp();
    arrive_in_cluster();
    if (pairs_ == 1) {
      use_rows(rows, to_output());
    } else {
      use_rows(rows, to_pair());
      const int counter = item_number_ * (1 + work_.groups()) + rank_;
      if (work_.came_last_of(work_.args.counters + counter, pairs_)) {
        if (pairs_ == 2)
          join_with_other(rows);
        else
          join_rows(pairs_, from_pair(), to_output());
      }
    }
    __syncwarp();
    wait_in_cluster();
  }

  template <class Use>
  TS_DEVICE void use_rows(const Row (&rows)[kRowsOfPair], Use use) const {
#pragma unroll
    for (int i = 0; i < kRowsOfPair; ++i)
      if (row(i) < end_) use_row(row(i), rows[i], use);
  }

  TS_DEVICE void join_with_other(const Row (&rows)[kRowsOfPair]) const {
    float values[kRowsOfPair][4 * kUnits];
    State states[kRowsOfPair];
#pragma unroll
    for (int i = 0; i < kRowsOfPair; ++i) from_pair()(1 - pair_, imin(row(i), end_ - 1), values[i], states[i]);
    const bool second = pair_ == 1;
#pragma unroll
    for (int i = 0; i < kRowsOfPair; ++i) {
      const State both[2] = {second ? states[i] : rows[i].state, second ? rows[i].state : states[i]};
      float outputs[2][4 * kUnits];
#pragma unroll
      for (int c = 0; c < 4 * kUnits; ++c) {
        outputs[0][c] = second ? values[i][c] : rows[i].o[c];
        outputs[1][c] = second ? rows[i].o[c] : values[i][c];
      }
      Row joined;
      joined.add_all(both, outputs, 2);
      if (row(i) < end_) use_row(row(i), joined, to_output());
    }
  }

  const Work& work_;
  const int item_number_;
  int rank_, pair_, pairs_;  // the block's in its cluster, and the cluster's of the item's
  int first_, end_;          // the block's share of the rows
};

}  // namespace ts
