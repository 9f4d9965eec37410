// Joins an item's partial results in a launch of its own, behind that of the pieces: where items have many rows, one
// block for each item would take longer. The kernel is the same one, so that no second one need be built and loaded.
//
// Launch: kThreads threads, ts_decode_join_bytes of dynamic shared memory, grid (row_blocks * heads_kv,
// ts_decode_join_blocks, batch). join_warps warps, which divide a block's, share the parts of a row's 128 columns out in ascending
// order, then their results are joined in that order. Or one warp takes join_units times 128 columns.
#pragma once

#include "piece_work.cuh"

#include "../../common/launch.cuh"

namespace ts {

struct PartsJoin : PieceWork<PartsJoin> {
  static constexpr int kTogether = 8;  // parts whose loads are under way
  static constexpr int kUnits = ts_decode_join_units(cfg::kHeadDimV);

  using PieceWork<PartsJoin>::PieceWork;

  TS_DEVICE void run() {
    let_next_kernel_start();
    wait_for_previous_kernel();
    item = item_of(args, blockIdx.z, blockIdx.x / args.row_blocks, blockIdx.x % args.row_blocks);
    const int item_number = (item.batch * static_cast<int>(args.heads_kv) + item.head_kv) * args.row_blocks +
                            static_cast<int>(blockIdx.x) % args.row_blocks;
    if (item.rows(args) <= 0) return;
    const int pieces = piece_count(item_number);
    if (pieces == 1) return;
    if constexpr (kUnits == 4) {
      if (args.join_units == 4) return join_row<4, 4>(item_number, pieces);
      if (args.join_units == 2) return join_row<2, kTogether>(item_number, pieces);
    }
    join_units(item_number, pieces, blockIdx.y);
  }

  // Of an item, what one of its blocks takes: 128 columns of a row for each team of warps.
  TS_DEVICE void join_units(int item_number, int pieces, int block) const {
    const int warp = threadIdx.x / 32, team = warp / args.join_warps, of_team = warp % args.join_warps;
    const int unit = block * (kThreads / 32 / args.join_warps) + team;
    const int row = unit / kUnits, column = unit % kUnits * TS_DECODE_JOIN_COLUMNS + 4 * lane();
    const bool inside = row < item.rows(args) && column < cfg::kHeadDimV;
    const int share = ceil_div(pieces, args.join_warps), first = imin(of_team * share, pieces);
    Joined<> joined;
    if (inside) add_parts<kTogether>(joined, item_number, first, imin(share, pieces - first), row, column);
    if (args.join_warps > 1) {
      keep(warp, joined);
      __syncthreads();
      if (of_team > 0) return;
      for (int other = 1; other < args.join_warps; ++other) {
        float values[4];
        load_floats(values, place(warp + other));
        joined.add(load_state(place(warp + other) + 16), values);
      }
    }
    if (inside) store(row, column, joined.state, joined.o);
  }

  // Some of a row's units at once, by one warp: fewer blocks take turns on the SMs, which a block fills by its registers.
  // Sums have the bits that a unit at a time gives them where there are no more parts than are loaded together.
  template <int kUnitsAtOnce, int kPartsTogether>
  TS_DEVICE void join_row(int item_number, int pieces) const {
    constexpr int kShares = kUnits / kUnitsAtOnce;
    const int at = blockIdx.y * (kThreads / 32) + threadIdx.x / 32, row = at / kShares;
    const int column = at % kShares * kUnitsAtOnce * TS_DECODE_JOIN_COLUMNS + 4 * lane();
    if (row >= item.rows(args)) return;
    Joined<4 * kUnitsAtOnce> joined;
    add_parts<kPartsTogether>(joined, item_number, 0, pieces, row, column);
#pragma unroll
    for (int i = 0; i < kUnitsAtOnce; ++i)
      if (column + i * TS_DECODE_JOIN_COLUMNS < cfg::kHeadDimV)
        store(row, column + i * TS_DECODE_JOIN_COLUMNS, joined.state, joined.o + 4 * i);
  }

  // Of lists the launch before has left it: they are counted there.
  TS_DEVICE int piece_count(int item_number) const {
    if constexpr (kUneven) return args.piece_counts[item_number];
    return piece_of(args, item, args.piece_tiles, 0).count;
  }

  // Adds a row's parts, of every 128 columns from `column` on four.
  template <int kPartsTogether, int kColumns>
  TS_DEVICE void add_parts(Joined<kColumns>& joined, int item_number, int first, int count, int row, int column) const {
    for (int part = 0; part < count; part += kPartsTogether) {
      float values[kPartsTogether][kColumns];
      State states[kPartsTogether];
#pragma unroll
      for (int i = 0; i < kPartsTogether; ++i) {
        states[i] = {-kInfinity, 0.0f};
        if (part + i >= count) continue;
        const float* const from = part_row(item_number, first + part + i, row);
        states[i] = load_part_state(from + cfg::kHeadDimV);
#pragma unroll
        for (int j = 0; j < kColumns / 4; ++j)
          load_part(values[i] + 4 * j, from + imin(column + j * TS_DECODE_JOIN_COLUMNS, cfg::kHeadDimV - 4));
      }
      joined.add_all(states, values, count - part);
    }
  }

  // A lane's four columns, and their state.
  TS_DEVICE u32 place(int warp) const { return shared + TS_DECODE_JOIN_LANE_BYTES * (32 * warp + lane()); }
  TS_DEVICE void keep(int warp, const Joined<>& joined) const {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(place(warp)), "f"(joined.o[0]), "f"(joined.o[1]),
                 "f"(joined.o[2]), "f"(joined.o[3])
                 : "memory");
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(place(warp) + 16), "f"(joined.state.base),
                 "f"(joined.state.sum)
                 : "memory");
  }
};

}  // namespace ts
