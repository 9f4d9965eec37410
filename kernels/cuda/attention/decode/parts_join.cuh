// Joins an item's partial results in a launch of its own, behind that of the pieces: where items have many rows, one
// block for each item would take longer. The kernel is the same one, so that no second one need be built and loaded.
//
// Launch: kThreads threads, ts_decode_join_bytes of dynamic shared memory, grid (row_blocks * heads_kv,
// ts_decode_join_blocks, batch). join_warps warps, which divide a block's, share the parts of a row's 128 columns out in ascending
// order, then their results are joined in that order.
#pragma once

#include "piece_work.cuh"

#include "../../common/launch.cuh"

namespace ts {

struct PartsJoin : PieceWork<PartsJoin> {
  static constexpr int kTogether = 8;  // parts whose loads are under way

  using PieceWork<PartsJoin>::PieceWork;

  TS_DEVICE void run() {
    let_next_kernel_start();
    wait_for_previous_kernel();
    item = item_of(args, blockIdx.z, blockIdx.x / args.row_blocks, blockIdx.x % args.row_blocks);
    const int item_number = (item.batch * static_cast<int>(args.heads_kv) + item.head_kv) * args.row_blocks +
                            static_cast<int>(blockIdx.x) % args.row_blocks;
    const int rows = item.rows(args);
    if (rows <= 0) return;
    const int pieces = piece_count(item_number);
    if (pieces == 1) return;
    const int warp = threadIdx.x / 32, team = warp / args.join_warps, of_team = warp % args.join_warps;
    const int unit = blockIdx.y * (kThreads / 32 / args.join_warps) + team;
    const int row = unit / ts_decode_join_units(cfg::kHeadDimV);
    const int column = unit % ts_decode_join_units(cfg::kHeadDimV) * TS_DECODE_JOIN_COLUMNS + 4 * lane();
    const bool inside = row < rows && column < cfg::kHeadDimV;
    const int share = ceil_div(pieces, args.join_warps), first = imin(of_team * share, pieces);
    Joined<> joined;
    if (inside) add_parts(joined, item_number, first, imin(share, pieces - first), row, column);
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

  // Of lists the launch before has left it: they are counted there.
  TS_DEVICE int piece_count(int item_number) const {
    if constexpr (kUneven) return args.piece_counts[item_number];
    return piece_of(args, item, args.piece_tiles, 0).count;
  }

  TS_DEVICE void add_parts(Joined<>& joined, int item_number, int first, int count, int row, int column) const {
    for (int part = 0; part < count; part += kTogether) {
      float values[kTogether][4];
      State states[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        states[i] = {-kInfinity, 0.0f};
        if (part + i >= count) continue;
        const float* const from = part_row(item_number, first + part + i, row);
        states[i] = load_part_state(from + cfg::kHeadDimV);
        load_part(values[i], from + column);
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
