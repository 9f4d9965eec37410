// What every kernel of decode does with a piece of an item's keys: it takes pieces from the list or the grid, brings the
// queries, and joins results. `Kernel` derives from PieceWork<Kernel> and has
//
//   int row_of_warp()                 the first row of the tile that the warp computes
//   void walk()                       the keys of the piece, from scores to unnormalised outputs
//   void spread()                     leaves the warps' results where all threads find them
//   Joined join_warps(row, column)    four columns of a row of these results, joined in a fixed order
#pragma once

#include "../logits.cuh"
#include "join.cuh"
#include "list.cuh"
#include "pieces.cuh"

namespace ts {

template <class Kernel>
struct PieceWork {
  const TsCudaDecodeArgs& args;
  u32 shared;
  Item item;
  int number;  // of the piece
  Piece piece;
  Rows place;
  Alibi alibi;
  float narrow_scale;  // of the logits, and that of the item's narrow keys
  float unit;

  TS_DEVICE PieceWork(const TsCudaDecodeArgs& arguments, u32 memory) : args(arguments), shared(memory) {}

  TS_DEVICE static int lane() { return threadIdx.x & 31; }
  TS_DEVICE Kernel& kernel() { return static_cast<Kernel&>(*this); }
  TS_DEVICE const Kernel& kernel() const { return static_cast<const Kernel&>(*this); }

  TS_DEVICE const char* row_of(const void* base, const TsStrides& strides, int row) const {
    return static_cast<const char*>(base) +
           2 * ((cfg::kGroupMode ? 0 : item.batch * strides.batch) + item.head(args, row) * strides.head +
                (item.query(args, row) + item.offset_q) * strides.row);
  }

  TS_DEVICE void copy_queries() const {
    constexpr int kChunks = kDepthQk / 8;
    const int count = item.rows(args);
    for (int i = threadIdx.x; i < kTileM * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool valid = row < count && chunk * 8 < cfg::kHeadDimQk;
      const char* const from = valid ? row_of(args.q, args.q_strides, row) + chunk * 16 : static_cast<const char*>(args.q);
      const u32 to = shared + row * kPitchQ;
      if constexpr (kNarrow) {
        store_in_narrow_order(to + chunk / 2 * 32 + chunk % 2 * 8, from, valid);
      } else {
        copy_async(to + chunk * 16, from, valid);
      }
    }
  }

  // Of the logits. An argument takes no register.
  TS_DEVICE float scale() const { return kNarrow && !kScaledRows ? narrow_scale : args.scale; }

  // What the item's narrow keys or values are all multiplied by.
  TS_DEVICE float item_scale(const TsScale& of) const {
    if constexpr (!kNarrow || kScaledRows) return 1.0f;
    return of.data == nullptr ? 1.0f : __ldg(of.data + item.batch * of.batch + item.head_kv * of.head);
  }

  // Of scores of the keys from `first` on: what is added to their logits, and -inf where a limit that cuts hides a key.
  template <int kCount>
  TS_DEVICE void finish_logits_of(float (&s)[kCount], int first, bool cut) const {
    const int column = first + 2 * (lane() & 3);
    if (cfg::kSoftCap && cut) mask(s, column);  // a soft cap mixes neighbours: no hidden NaN may reach them
    finish_logits(args, scale(), alibi, GlobalBias{args, item.length, place, column}, column, s);
    if (cut) mask(s, column);
  }

  template <int kCount>
  TS_DEVICE void mask(float (&s)[kCount], int column) const {
    int begin[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      begin[r] = key_begin(args, item.length, place.query[r]) - column;
      end[r] = key_end(args, item.length, place.query[r]) - column;
    }
    mask_scores(s, begin, end);
  }

  static constexpr int kPartPitch = cfg::kHeadDimV + TS_DECODE_STATE_FLOATS;

  // A row of a piece's partial: its values, and behind them its state.
  TS_DEVICE float* part_row(i64 first_part, int of_piece, int row) const {
    return args.partials + ((first_part + of_piece) * args.part_rows + row) * kPartPitch;
  }

  TS_DEVICE Joined join_pieces(i64 first_part, int row, int column) const {
    constexpr int kAtOnce = 16;  // loads under way
    Joined joined;
    for (int of_piece = 0; of_piece < piece.count; of_piece += kAtOnce) {
      float values[kAtOnce][4];
      State states[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const float* const from = part_row(first_part, imin(of_piece + i, piece.count - 1), row);
        load_part(values[i], from + column);
        states[i] = load_part_state(from + cfg::kHeadDimV);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (of_piece + i < piece.count) joined.add(states[i], values[i]);
    }
    return joined;
  }

  TS_DEVICE void store(const Joined& joined, int row, int column) const {
    const int head = item.head(args, row);
    const float sink = cfg::kSink && args.sink != nullptr ? args.sink[head] : -kInfinity;
    const RowResult result = finish_row<cfg::kSink>(joined.state.base, joined.state.sum, sink);
    const bool empty = result.scale == 0.0f;
    const float by = result.scale * item_scale(args.v_scale);
    const u32 low = pack<cfg::kBf16>(joined.o[0] * by, joined.o[1] * by);
    const u32 high = pack<cfg::kBf16>(joined.o[2] * by, joined.o[3] * by);
    store_8_bytes(const_cast<char*>(row_of(args.o, args.o_strides, row)) + 2 * column, empty ? 0 : low,
                  empty ? 0 : high);
    if (cfg::kLse && args.lse != nullptr && column == 0) {
      args.lse[(cfg::kGroupMode ? 0 : item.batch * args.lse_strides.batch) + head * args.lse_strides.head +
               (item.query(args, row) + item.offset_q) * args.lse_strides.row] = result.lse;
    }
  }

  // Calls use(row, column) for every four columns of the rows that are queries, each in one thread.
  template <class Use>
  TS_DEVICE void each_quarter(Use use) const {
    constexpr int kQuarters = cfg::kHeadDimV / 4;
    const int count = item.rows(args) * kQuarters;
    for (int i = threadIdx.x; i < count; i += kThreads) use(i / kQuarters, i % kQuarters * 4);
  }

  TS_DEVICE void finish(int item_number) {
    kernel().spread();
    if (piece.count == 1) {
      each_quarter([&](int row, int column) { store(kernel().join_warps(row, column), row, column); });
      return;
    }
    const i64 first_part = static_cast<i64>(item_number) * args.pieces;
    each_quarter([&](int row, int column) {
      const Joined joined = kernel().join_warps(row, column);
      float* const to = part_row(first_part, number, row);
      store_part(to + column, joined.o);
      if (column == 0) store_part_state(to + cfg::kHeadDimV, joined.state);
    });
    if (!came_last(args.counters + item_number, piece.count, threadIdx.x, shared + kFlagOffset,
                   [] { __syncthreads(); }))
      return;
    each_quarter([&](int row, int column) { store(join_pieces(first_part, row, column), row, column); });
  }

  TS_DEVICE void run() {
    if constexpr (kUneven) {
      WorkList list;
      list.start(args, shared + kListOffset);
      for (int at = blockIdx.x; at < list.total(); at += gridDim.x) {
        const WorkList::Work work = list.find(args, at, shared + kListOffset);
        const int row_blocks = pieces_of_sequence(args, work.batch).row_blocks;
        const int tiles = row_blocks * static_cast<int>(args.heads_kv), tile = work.place % tiles;
        run_piece(work.batch, tile / row_blocks, tile % row_blocks, work.place / tiles);
      }
    } else {
      run_piece(blockIdx.z, blockIdx.x / args.row_blocks, blockIdx.x % args.row_blocks, blockIdx.y);
    }
  }

  TS_DEVICE void run_piece(int batch, int head_kv, int row_block, int piece_number) {
    item = item_of(args, batch, head_kv, row_block);
    number = piece_number;
    piece = piece_of(args, item, number);
    if (number >= piece.count) return;
    const int row = Kernel::row_of_warp() + lane() / 4, last = item.rows(args) - 1;
    // Rows without a query compute what the last one would of zeros, and are not stored.
    place.batch = item.batch;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      place.head[r] = item.head(args, imin(row + 8 * r, last));
      place.query[r] = item.query(args, imin(row + 8 * r, last));
    }
    narrow_scale = args.scale * item_scale(args.k_scale);
    unit = logit_unit(args, scale());
    if constexpr (cfg::kAlibi) alibi.start(args, place, item.length, unit);
    kernel().walk();
    finish((batch * static_cast<int>(args.heads_kv) + head_kv) * args.row_blocks + row_block);
  }
};

}  // namespace ts
