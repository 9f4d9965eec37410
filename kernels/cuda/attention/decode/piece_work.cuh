// What every kernel of decode does with a piece of an item's keys: it takes pieces from the list or the grid, brings the
// queries, and joins results. `Kernel` derives from PieceWork<Kernel> and has
//
//   int row_of_warp()                 the first row of the tile that the warp computes
//   void walk()                       the keys of the piece, from scores to unnormalised outputs
//   void spread()                     leaves the warps' results where all threads find them
//   Joined<> join_warps(row, column)  four columns of a row of these results, joined in a fixed order
//
// or, where results stay in registers, a finish(item_number) of its own in place of the last two. `Team` is the threads
// that work on it.
#pragma once

#include "../logits.cuh"
#include "join.cuh"
#include "list.cuh"
#include "pieces.cuh"

namespace ts {

template <class Kernel, class Team = WholeBlock>
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
    if constexpr (kScaledQueries) return copy_scaled_queries();
    constexpr int kChunks = kDepthQk / 8;
    const int count = item.rows(args);
    for (int i = Team::thread(); i < kTileM * kChunks; i += Team::kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool valid = row < count && chunk * 8 < cfg::kHeadDimQk;
      const char* const from = valid ? row_of(args.q, args.q_strides, row) + chunk * 16 : static_cast<const char*>(args.q);
      const u32 to = shared + row * kPitchQ;
      if constexpr (kNarrow) {
        u32 x[4];
        load_eight(x, from, valid);
        store_in_narrow_order(to + place_in_narrow_order(chunk), x);
      } else {
        copy_async(to + chunk * 16, from, valid);
      }
    }
  }

  // Queries of bf16 as fp16, and the rows' scales beside them. A warp has whole rows.
  TS_DEVICE void copy_scaled_queries() const {
    constexpr int kChunks = kDepthQk / 8, kShare = ceil_div(kChunks, 32);
#pragma unroll(kShare == 1 ? 4 : 1)
    for (int row = Team::thread() / 32; row < kTileM; row += Team::kThreads / 32) {
      u32 x[kShare][4];
      load_query(row, x);
      store_scaled_query(row, x, [&](int chunk, const u32(&eight)[4]) {
        if (chunk < kChunks) store_in_narrow_order(shared + row * kPitchQ + place_in_narrow_order(chunk), eight);
      });
    }
  }

  // A row of the tile, of which each lane of a warp has every 32nd chunk; zeros where it has none.
  template <int kShare>
  TS_DEVICE void load_query(int row, u32 (&x)[kShare][4]) const {
    const int count = item.rows(args);
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      const int chunk = 32 * i + lane();
      const bool valid = row < count && chunk * 8 < cfg::kHeadDimQk;
      load_eight(x[i], valid ? row_of(args.q, args.q_strides, row) + chunk * 16 : static_cast<const char*>(args.q), valid);
    }
  }
  // Calls store(chunk, elements) for each, and stores the row's scale.
  template <int kShare, class Store>
  TS_DEVICE void store_scaled_query(int row, u32 (&x)[kShare][4], Store store) const {
    const float scale = row_to_halves(x);
#pragma unroll
    for (int i = 0; i < kShare; ++i) store(32 * i + lane(), x[i]);
    if (lane() == 0)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared + kRowScalesOffset + 4 * row), "f"(scale) : "memory");
  }

  // Of the thread's two rows.
  TS_DEVICE void load_row_scales(float (&scales)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      asm volatile("ld.shared.f32 %0, [%1];"
                   : "=f"(scales[r])
                   : "r"(shared + kRowScalesOffset + 4 * (Kernel::row_of_warp() + lane() / 4 + 8 * r))
                   : "memory");
  }
  template <int kCount>
  TS_DEVICE static void scale_rows(float (&s)[kCount], const float (&scales)[2]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] *= scales[(i >> 1) & 1];
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
    finish_logits(args, scale(), alibi, GlobalBias<false>{args, item.length, place, column}, column, s);
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

  TS_DEVICE int groups() const { return static_cast<int>(ts_decode_groups(args.pieces, cfg::kHeadDimV)); }

  // A row of one of the item's partials, of a piece or behind these of a group: its values, and behind them its state.
  TS_DEVICE float* part_row(int item_number, int part, int row) const {
    const i64 first = static_cast<i64>(item_number) * (args.pieces + groups());
    return args.partials + ((first + part) * args.part_rows + row) * kPartPitch;
  }

  // Of a row's columns those that a thread joins together: sixteen loads are under way, of as many partials as is left
  // of them. Eight where the products fill the registers: with sixteen the compiler spills.
  static constexpr int kQuarters = cfg::kHeadDimV / 4;
  static constexpr int kQuartersTogether = cfg::kHeadDimV <= 256 ? 1 : 8;
  static constexpr int kPartsTogether = (cfg::kHeadDimV > 192 && cfg::kHeadDimV <= 256 ? 8 : 16) / kQuartersTogether;

  // Joins parts first, first + 1, .. of an item: calls use(row, column, state, values) for every four columns of the
  // rows that are queries. So many threads share a row that each thread has one, if there are enough of them; neighbours
  // have neighbouring columns.
  template <class Use>
  TS_DEVICE void join_parts(int item_number, int first, int count, Use use) const {
    constexpr int kMostApart = ceil_div(kQuarters, kQuartersTogether);
    const int rows = item.rows(args), apart = imax(1, imin(Team::kThreads / rows, kMostApart));
    for (int i = Team::thread(); i < rows * apart; i += Team::kThreads)
      for (int quarter = i % apart; quarter < kQuarters; quarter += apart * kQuartersTogether)
        join_quarters(item_number, first, count, i / apart, quarter, apart, use);
  }

  // Columns 4 * quarter .. and those `apart` quarters further.
  template <class Use>
  TS_DEVICE void join_quarters(int item_number, int first, int count, int row, int quarter, int apart, Use use) const {
    Joined<4 * kQuartersTogether> joined;
    const auto column = [&](int i) { return 4 * imin(quarter + i * apart, kQuarters - 1); };
    for (int part = 0; part < count; part += kPartsTogether) {
      float values[kPartsTogether][4 * kQuartersTogether];
      State states[kPartsTogether];
#pragma unroll
      for (int i = 0; i < kPartsTogether; ++i) {
        const float* const from = part_row(item_number, first + imin(part + i, count - 1), row);
        states[i] = load_part_state(from + cfg::kHeadDimV);
#pragma unroll
        for (int j = 0; j < kQuartersTogether; ++j) load_part(values[i] + 4 * j, from + column(j));
      }
      joined.add_all(states, values, count - part);
    }
#pragma unroll
    for (int j = 0; j < kQuartersTogether; ++j)
      if (quarter + j * apart < kQuarters) use(row, column(j), joined.state, joined.o + 4 * j);
  }

  // Four columns of a row.
  TS_DEVICE void store(int row, int column, const State& state, const float* o) const {
    const RowResult result = result_of(state, row);
    const bool empty = result.scale == 0.0f;
    const float by = result.scale;
    const u32 low = pack<cfg::kBf16>(o[0] * by, o[1] * by);
    const u32 high = pack<cfg::kBf16>(o[2] * by, o[3] * by);
    store_8_bytes(const_cast<char*>(row_of(args.o, args.o_strides, row)) + 2 * column, empty ? 0 : low,
                  empty ? 0 : high);
    if (column == 0) store_lse(row, result.lse);
  }

  TS_DEVICE void store_lse(int row, float lse) const {
    if (cfg::kLse && args.lse != nullptr) {
      args.lse[(cfg::kGroupMode ? 0 : item.batch * args.lse_strides.batch) +
               item.head(args, row) * args.lse_strides.head +
               (item.query(args, row) + item.offset_q) * args.lse_strides.row] = lse;
    }
  }

  // What finishes a row of the item: the scale of its outputs, which are zero where it is, and its lse.
  TS_DEVICE RowResult result_of(const State& state, int row) const {
    const float sink = cfg::kSink && args.sink != nullptr ? args.sink[item.head(args, row)] : -kInfinity;
    RowResult result = finish_row<cfg::kSink>(state.base, state.sum, sink);
    result.scale *= item_scale(args.v_scale);
    return result;
  }

  // Calls use(row, column) for every four columns of the rows that are queries, each in one thread.
  template <class Use>
  TS_DEVICE void each_quarter(Use use) const {
    const int count = item.rows(args) * kQuarters;
    for (int i = Team::thread(); i < count; i += Team::kThreads) use(i / kQuarters, i % kQuarters * 4);
  }

  TS_DEVICE void finish(int item_number) {
    kernel().spread();
    if (piece.count == 1) {
      each_quarter([&](int row, int column) {
        const Joined<> joined = kernel().join_warps(row, column);
        store(row, column, joined.state, joined.o);
      });
      return;
    }
    if constexpr (kJoinsInCluster) {
      if (has_clusters(args)) {
        each_quarter([&](int row, int column) {
          const Joined<> joined = kernel().join_warps(row, column);
          const u32 to = part_of_block(row);
          store_floats(to + 4 * column, joined.o);
          if (column == 0) store_state(to + 4 * cfg::kHeadDimV, joined.state);
        });
        return join_cluster_parts();
      }
    }
    each_quarter([&](int row, int column) {
      const Joined<> joined = kernel().join_warps(row, column);
      store_in_part(item_number, number, row, column, joined.state, joined.o);
    });
    join_if_last(item_number);
  }

  // A row of the block's own partial, for the other blocks of its cluster: as a row of one in memory.
  TS_DEVICE u32 part_of_block(int row) const { return shared + kClusterPartOffset + 4 * row * kPartPitch; }

  // Joins the partials of the cluster's blocks: each block takes a share of the rows' columns, and reads these in all
  // blocks, in ascending order. No block ends before the others have read.
  TS_DEVICE void join_cluster_parts() const {
    constexpr int kTogether = kPartsTogether / 2, kLine = 8;  // blocks whose loads are under way; quarters of 128 bytes
    cluster_sync();
    const int total = item.rows(args) * kQuarters, blocks = piece.count;
    const int share = ceil_div(ceil_div(total, blocks), kLine) * kLine;
    const int first = number * share, end = imin(total, first + share);
    for (int i = first + Team::thread(); i < end; i += Team::kThreads) {
      const int row = i / kQuarters, column = i % kQuarters * 4;
      Joined<> joined;
      for (int block = 0; block < blocks; block += kTogether) {
        float values[kTogether][4];
        State states[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const u32 from = address_in_block(part_of_block(row), imin(block + j, blocks - 1));
          states[j] = load_state_in_cluster(from + 4 * cfg::kHeadDimV);
          load_part_in_cluster(values[j], from + 4 * column);
        }
        joined.add_all(states, values, blocks - block);
      }
      store(row, column, joined.state, joined.o);
    }
    cluster_sync();
  }

  TS_DEVICE void store_in_part(int item_number, int part, int row, int column, const State& state,
                               const float* o) const {
    float* const to = part_row(item_number, part, row);
    store_part(to + column, o);
    if (column == 0) store_part_state(to + cfg::kHeadDimV, state);
  }

  TS_DEVICE bool came_last_of(unsigned int* counter, int count) const {
    return came_last(counter, count, Team::thread(), shared + kFlagOffset, Team::sync);
  }

  // Counts the piece's partial; the last to arrive joins.
  TS_DEVICE void join_if_last(int item_number) const {
    if (args.join == TS_DECODE_LEAVES_PARTS) return;
    constexpr int kGroup = ts_decode_group(cfg::kHeadDimV);
    unsigned int* const counters = args.counters + item_number * (1 + groups());
    const auto finish = [&](int row, int column, const State& state, const float* o) {
      store(row, column, state, o);
    };
    if (piece.count <= kGroup) {
      if (came_last_of(counters, piece.count)) join_parts(item_number, 0, piece.count, finish);
      return;
    }
    const int group = number / kGroup, first = group * kGroup, count = imin(kGroup, piece.count - first);
    if (!came_last_of(counters + 1 + group, count)) return;
    join_parts(item_number, first, count, [&](int row, int column, const State& state, const float* o) {
      store_in_part(item_number, args.pieces + group, row, column, state, o);
    });
    const int of_item = ceil_div(piece.count, kGroup);
    if (came_last_of(counters, of_item)) join_parts(item_number, args.pieces, of_item, finish);
  }

  // Brings the first keys and values of the block's piece into L2, before the kernel before has ended: what that one may
  // still write of them, it writes there. Of tensors whose rows follow one another: where a sequence's keys are is not
  // known before the lengths can be read, and row by row the requests would hold the copies up.
  TS_DEVICE void prefetch() {
    if constexpr (kUneven) return;
    take_piece_of_block();
    const int first = imax(piece.begin, piece.first_tile * kTileKeys);
    const int end = imin(piece.end, imin(piece.end_tile, piece.first_tile + args.prefetch_tiles) * kTileKeys);
    prefetch_rows(KeyRows(args, item, args.k, args.k_strides), kKeyBytes * cfg::kHeadDimQk, first, end - first);
    prefetch_rows(KeyRows(args, item, args.v, args.v_strides), kKeyBytes * cfg::kHeadDimV, first, end - first);
  }

  TS_DEVICE void prefetch_rows(const KeyRows& rows, int row_bytes, int first, int count) const {
    constexpr int kRowsAtOnce = 16;
    const int row = Team::thread() * kRowsAtOnce;
    if (rows.row_bytes == row_bytes && row < count)
      prefetch_bytes(rows.base + static_cast<i64>(first + row) * row_bytes, imin(kRowsAtOnce, count - row) * row_bytes);
  }

  TS_DEVICE void take_piece_of_block() {
    const TensorPiece of_block(args);
    item = item_of(args, of_block.batch, of_block.head_kv, of_block.row_block);
    piece = piece_of(args, item, of_block.piece_tiles, of_block.number);
  }

  // The pieces of the block: those that it takes from a list, or the one that it has by its place in the grid.
  template <bool kOfGrid = false>
  TS_DEVICE void run() {
    const auto use = [&](int batch, int head_kv, int row_block, int piece_tiles, int piece_number) {
      run_piece(batch, head_kv, row_block, piece_tiles, piece_number);
    };
    if constexpr (kOfGrid)
      piece_of_grid(args, use);
    else
      each_piece<Team>(args, shared, use);
  }

  TS_DEVICE void run_piece(int batch, int head_kv, int row_block, int piece_tiles, int piece_number) {
    item = item_of(args, batch, head_kv, row_block);
    number = piece_number;
    piece = piece_of(args, item, piece_tiles, number);
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
    const int item_number = (batch * static_cast<int>(args.heads_kv) + head_kv) * args.row_blocks + row_block;
    if (kUneven && args.join == TS_DECODE_LEAVES_PARTS && number == 0 && Team::thread() == 0)
      args.piece_counts[item_number] = piece.count;
    kernel().finish(item_number);
  }
};

}  // namespace ts
