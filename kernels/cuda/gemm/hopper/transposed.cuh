// The end of a tile that is computed transposed: its sums are turned round in shared memory, and the epilogue sees them
// as it sees those of any tile.
#pragma once

#include "../epilogue.cuh"
#include "slabs.cuh"

namespace ts::gemm {

struct TransposedSlabs : Slabs {
  static constexpr int kTurns = ceil_div(kOwnRows, kTurnRows);  // of a block of 64 columns

  TS_DEVICE int warp() const { return thread() / 32; }
  TS_DEVICE int group() const { return thread() % 32 / 4; }
  TS_DEVICE int quad() const { return thread() & 3; }

  // Of the rows of d that are turned together each of the four warps finishes 16, with a share of the columns.
  TS_DEVICE int turned_row() const { return warp() % (kTurnRows / 16) * 16; }
  TS_DEVICE int turned_column() const { return warp() / (kTurnRows / 16) * kTurnRows; }

  // What is turned together begins here; `turn` counts the turns of all blocks of columns.
  TS_DEVICE int first_row(const Tile& t, int turn) const { return t.row_offset + t.row + turn % kTurns * kTurnRows; }
  TS_DEVICE int first_column(const Tile& t, int turn) const {
    return t.column + (cfg::kPingPong || kAcross > 1 ? 0 : warpgroup * kWarpgroupRows) + turn / kTurns * 64;
  }
  // Rows of the tile among them: fewer the last time, where the tile's rows are no multiple.
  static constexpr TS_DEVICE int turned_rows(int turn) {
    const int left = kOwnRows - turn % kTurns * kTurnRows;
    return left < kTurnRows ? left : kTurnRows;
  }

  // Where the rows of the matrix end, or those of the tile.
  TS_DEVICE int row_end(const Tile& t) const {
    int row_limit = t.row_offset + t.row_limit;
    if (kOwnRows % kTurnRows != 0) row_limit = imin(row_limit, t.row_offset + t.row + kOwnRows);
    return row_limit;
  }

  // Where the thread's rows of a slab lie: slabs divide the columns that a warp finishes.
  TS_DEVICE Place place_of_slab(const Tile& t, int slab_index) const {
    const int turn = slab_index / kSlabs;
    const int row = first_row(t, turn) + turned_row();
    const int column = first_column(t, turn) + turned_column() + slab_index % kSlabs * kSlabColumns;
    return {row + group(), column + 2 * quad(), row_end(t), args.n, batch_of(t), t.batch};
  }

  // Leaves the sums of a turn in shared memory as d has them.
  TS_DEVICE void leave_turned(const Sum* sums, int rows) const {
    const u32 to = shared.turned(warpgroup) + (2 * quad() * kTurnPitch + 16 * warp() + group()) * 4;
#pragma unroll
    for (int i = 0; i < kTurnRows / 2; ++i) {
      if (i >= rows / 2) continue;
      const int row = i / 4 * 8 + (i & 1), column = (i >> 1 & 1) * 8;
      store_word(to + (row * kTurnPitch + column) * 4, sums[i]);
    }
  }
  static TS_DEVICE void store_word(u32 to, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
  }
  static TS_DEVICE void store_word(u32 to, int x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
  }
  static TS_DEVICE void load_pair(u32 from, float& x, float& y) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(from) : "memory");
  }
  static TS_DEVICE void load_pair(u32 from, int& x, int& y) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(from) : "memory");
  }
  TS_DEVICE void load_turned(Sum (&sums)[kSlabColumns / 2], int slab) const {
    const u32 from = shared.turned(warpgroup) +
                     ((turned_row() + group()) * kTurnPitch + turned_column() + slab * kSlabColumns + 2 * quad()) * 4;
#pragma unroll
    for (int i = 0; i < kSlabColumns / 2; i += 2)
      load_pair(from + (i / 4 * 8 + (i >> 1 & 1) * 8 * kTurnPitch) * 4, sums[i], sums[i + 1]);
  }

  // What the epilogue reads for 16 rows of a block of 64 columns, where it is applied to sums as they lie: they are 64
  // rows by 16 columns of d's transpose, from row `row` of a turn on.
  using SumOperands = Operands<kEpilogueOnSums ? 0 : cfg::kEpilogueLength, 16, true>;
  TS_DEVICE Place place_in_transpose(const Tile& t, int turn, int row) const {
    return {first_column(t, turn) + 16 * warp() + group(), first_row(t, turn) + row + 2 * quad(), args.n, row_end(t),
            batch_of(t), t.batch};
  }
  TS_DEVICE void load_ahead(const Tile& t, int turn, int row, SumOperands& operands) const {
    if (turn < kRowBlocks * kTurns) operands.load(args, place_in_transpose(t, turn, row));
  }

  // A slab of 64 columns turned by the store of matrices. `operands` are those of its first rows, then of the next turn.
  TS_DEVICE void store_turned(const Tile& t, int turn, const Sum* sums, float factor, SumOperands& operands) {
    const u32 slab = next_slab();
    const int lane = thread() % 32;
    const int row = lane / 16 * 8 + lane % 8, chunk = 2 * warp() + (lane >> 3 & 1);
    const u32 to = slab + row * 128 + ((chunk ^ (row & 7)) << 4);
#pragma unroll
    for (int i = 0; i < kTurnRows / 2; i += 8) {
      const int sums_left = turned_rows(turn) / 2 - i;
      if (sums_left <= 0) continue;
      SumOperands next;
      load_ahead(t, sums_left > 8 ? turn : turn + 1, sums_left > 8 ? 2 * i + 16 : 0, next);
      float v[8];
#pragma unroll
      for (int x = 0; x < 8; ++x) v[x] = x < sums_left ? result_of(sums[i + x], factor) : 0.0f;
      operands.apply(args, place_in_transpose(t, turn, 2 * i), v, Staging{});
      operands = next;
      const auto pair = [&](int x) { return pack_pair<cfg::kTypeD>(v[x], v[x + 1]).words[0]; };
      const u32 at = to + i / 4 * 8 * 128;
      if (sums_left >= 8)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(pair(0)),
                     "r"(pair(2)), "r"(pair(4)), "r"(pair(6))
                     : "memory");
      else if (sums_left == 4)  // the addresses of lanes 0 to 15 are taken
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(pair(0)),
                     "r"(pair(2))
                     : "memory");
    }
    send_slab(t, slab, first_row(t, turn), first_column(t, turn), turned_rows(turn) / kBoxRows);
  }

  // `operands`: those of the first rows.
  TS_DEVICE void finish_transposed(const Tile& t, const Sum (&sums)[kRowBlocks][kSums], float factor,
                                   SumOperands& operands) {
    const bool whole = cfg::kGrouping == TS_GEMM_UNGROUPED || t.row + cfg::kTileM <= t.row_limit;
    if (kTurnsMatrices && whole) {
#pragma unroll
      for (int turn = 0; turn < kRowBlocks * kTurns; ++turn)
        store_turned(t, turn, sums[turn / kTurns] + turn % kTurns * kTurnRows / 2, factor, operands);
    }
    if constexpr (kTurnsFloats) {
      if (!kTurnsMatrices || !whole) finish_slabs(t, sums, factor, whole);
    }
  }
  TS_DEVICE void finish_slabs(const Tile& t, const Sum (&sums)[kRowBlocks][kSums], float factor, bool whole) {
    constexpr int kAllSlabs = kRowBlocks * kTurns * kSlabs;
    Operands<0, kSlabColumns> operands;
    operands.load(args, place_of_slab(t, 0));
#pragma unroll
    for (int slab_index = 0; slab_index < kAllSlabs; ++slab_index) {
      const int turn = slab_index / kSlabs, slab = slab_index % kSlabs;
      Operands<0, kSlabColumns> next;
      if (slab_index + 1 < kAllSlabs) next.load(args, place_of_slab(t, slab_index + 1));
      if (slab == 0) {
        named_barrier_sync(barrier(), 128);  // what was turned before has been read
        leave_turned(sums[turn / kTurns] + turn % kTurns * kTurnRows / 2, turned_rows(turn));
        named_barrier_sync(barrier(), 128);
      }
      Sum turned[kSlabColumns / 2];
      load_turned(turned, slab);
      float v[kSlabColumns / 2];
#pragma unroll
      for (int i = 0; i < kSlabColumns / 2; ++i) v[i] = result_of(turned[i], factor);
      const Place here = place_of_slab(t, slab_index);
      operands.apply(args, here, v, Staging{});
      if (cfg::kStoreTmaBox && whole)
        store_as_tma_box(t, first_row(t, turn), first_column(t, turn) + slab * kSlabColumns, v,
                         turned_rows(turn) / kBoxRows);
      else
        store_slab<kSlabColumns>(args, here, v);
      operands = next;
    }
  }
};

}  // namespace ts::gemm
