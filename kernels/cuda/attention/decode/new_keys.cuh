// What a call that appends brings: queries are turned on their way to shared memory, and a block of threads writes the new
// keys and values of its piece before it reads them. A key head has one tile of rows, and no sequence sees another's new
// keys, so no other block reads them: no launch comes before, and none waits. The block that writes a sequence's first new
// key, which the first query sees, writes the turned queries too.
//
// A row is turned in units of 16 elements: 8 pairs, or the neighbours behind them. A unit is two chunks of 16 bytes.
#pragma once

#include "../../serving/turn.cuh"
#include "pieces.cuh"

namespace ts {

TS_DEVICE bool appends(const TsCudaDecodeArgs& args) {
  return kAppends && args.append.k != nullptr;
}

// The new keys of an item's sequence: those from `first` on, which is negative where there are fewer keys.
struct NewKeys {
  int first;
  i64 first_token;  // of positions

  TS_DEVICE NewKeys(const TsCudaDecodeArgs& args, const Item& item)
      : first(args.paged.lengths[item.batch] - item.length.q),
        first_token(cfg::kGroupMode ? item.offset_q : item.batch * args.seqlen_q) {}
};

// Those of a piece, begin .. end - 1, and the step that has the first.
struct NewKeysOfPiece {
  static constexpr int kNoStep = 1 << 30;
  int begin, end;

  TS_DEVICE NewKeysOfPiece(const NewKeys& keys, const Piece& piece)
      : begin(imax(keys.first, imax(piece.begin, piece.first_tile * kTileKeys))),
        end(imin(piece.end, piece.end_tile * kTileKeys)) {}
  TS_DEVICE bool has_first(const NewKeys& keys) const { return begin < end && begin == keys.first; }
  TS_DEVICE int first_step(const Piece& piece) const {
    return begin < end ? begin / kTileKeys - piece.first_tile : kNoStep;
  }
};

TS_DEVICE bool has_table_row(const TsCudaNewKeys& of, i64 position) {
  return position >= 0 && position < of.rotary_positions;
}

// Sixteen bytes to global memory.
TS_DEVICE void store_chunk(char* to, const u32 (&x)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

struct TurnedUnit {
  u32 a[4], b[4];
  float cos[8], sin[8];
  bool turned;

  // Which chunks a row's unit is, where the first `pairs` units are turned.
  TS_DEVICE static int chunk_a(const TsCudaNewKeys& of, int unit, int pairs) {
    return unit >= pairs || of.interleaved ? 2 * unit : unit;
  }
  TS_DEVICE static int chunk_b(const TsCudaNewKeys& of, int unit, int pairs) {
    return unit >= pairs || of.interleaved ? 2 * unit + 1 : unit + pairs;
  }

  // A unit of a row of `chunks` chunks, of the query or key at a position; what the row has not becomes zeros.
  TS_DEVICE void load(const TsCudaNewKeys& of, const char* row, int chunks, int unit, int pairs, i64 position) {
    const int first = chunk_a(of, unit, pairs), second = chunk_b(of, unit, pairs);
    load_eight(a, row + 16 * first, row != nullptr && first < chunks);
    load_eight(b, row + 16 * second, row != nullptr && second < chunks);
    turned = row != nullptr && unit < pairs && has_table_row(of, position);
    if (turned) {
      load_table(cos, of.rotary_cos + position * of.rotary_row_stride + 8 * unit);
      load_table(sin, of.rotary_sin + position * of.rotary_row_stride + 8 * unit);
    }
  }
  TS_DEVICE void turn(const TsCudaNewKeys& of) {
    if (!turned) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float a0 = low(a[i]), a1 = high(a[i]), b0 = low(b[i]), b1 = high(b[i]);
      if (of.interleaved) {
        turn_pair(a0, a1, cos[i], sin[i]);
        turn_pair(b0, b1, cos[4 + i], sin[4 + i]);
      } else {
        turn_pair(a0, b0, cos[2 * i], sin[2 * i]);
        turn_pair(a1, b1, cos[2 * i + 1], sin[2 * i + 1]);
      }
      a[i] = pack<cfg::kBf16>(a0, a1);
      b[i] = pack<cfg::kBf16>(b0, b1);
    }
  }
  // To a row of `chunks` chunks.
  TS_DEVICE void store(const TsCudaNewKeys& of, char* row, int chunks, int unit, int pairs) const {
    const int first = chunk_a(of, unit, pairs), second = chunk_b(of, unit, pairs);
    if (first < chunks) store_chunk(row + 16 * first, a);
    if (second < chunks) store_chunk(row + 16 * second, b);
  }

 private:
  TS_DEVICE static void load_table(float (&to)[8], const float* from) {
#pragma unroll
    for (int i = 0; i < 8; i += 4)
      asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3])
                   : "l"(from + i));
  }
  TS_DEVICE static float low(u32 pair) {
    if constexpr (cfg::kBf16) return __uint_as_float(pair << 16);
    float value;
    asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %1;\ncvt.f32.f16 %0, a;\n}" : "=f"(value) : "r"(pair));
    return value;
  }
  TS_DEVICE static float high(u32 pair) {
    if constexpr (cfg::kBf16) return __uint_as_float(pair & 0xffff0000u);
    float value;
    asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %1;\ncvt.f32.f16 %0, b;\n}" : "=f"(value) : "r"(pair));
    return value;
  }
};

TS_DEVICE i64 position_of(const TsCudaDecodeArgs& args, const NewKeys& keys, int token) {
  return args.append.positions != nullptr ? args.append.positions[keys.first_token + token] : keys.first + token;
}


// Writes the new keys and values of a piece. All threads of the team; they wait for one another afterwards.
template <class Team>
TS_DEVICE void write_new_keys(const TsCudaDecodeArgs& args, const Item& item, const NewKeys& keys,
                              const NewKeysOfPiece& of_piece) {
  constexpr int kChunksK = cfg::kHeadDimQk / 8, kChunksV = cfg::kHeadDimV / 8;
  constexpr int kUnitsK = ceil_div(kChunksK, 2), kUnits = kUnitsK + ceil_div(kChunksV, 2);
  const TsCudaNewKeys& of = args.append;
#pragma unroll 1
  for (int i = Team::thread(); i < (of_piece.end - of_piece.begin) * kUnits; i += Team::kThreads) {
    const int key = of_piece.begin + i / kUnits, token = key - keys.first, of_row = i % kUnits;
    const bool is_key = of_row < kUnitsK;
    const int unit = is_key ? of_row : of_row - kUnitsK, chunks = is_key ? kChunksK : kChunksV;
    const int pairs = is_key ? of.rotary_dim / 16 : 0;
    const TsStrides& s = is_key ? of.k_strides : of.v_strides;
    const TsStrides& to = is_key ? args.k_strides : args.v_strides;
    const char* const from =
        static_cast<const char*>(is_key ? of.k : of.v) +
        2 * ((cfg::kGroupMode ? 0 : item.batch * s.batch) + item.head_kv * s.head + (item.offset_q + token) * s.row);
    TurnedUnit x;
    const i64 position = pairs > 0 ? position_of(args, keys, token) : 0;
    x.load(of, from, chunks, unit, pairs, position);
    // As of a kernel of its own: a key that has no row in the rotary table is written nowhere.
    const i64 page = page_number(item, page_of(args, key)), row = row_in_page(args, key);
    if (!is_page(args, static_cast<int>(page))) continue;
    if (pairs > 0 && !has_table_row(of, position)) continue;
    x.turn(of);
    char* const at = static_cast<char*>(const_cast<void*>(is_key ? args.k : args.v)) +
                     2 * (page * to.batch + item.head_kv * to.head + row * to.row);
    x.store(of, at, chunks, unit, pairs);
  }
}

TS_DEVICE void store_chunk(u32 to, const u32 (&x)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

// Brings an item's queries, turned, to shared memory: chunk c of row r to place(r, c), kChunks of a row, zeros where there
// are no elements; and, where the block `writes` them, to q_out. All threads of the team.
template <class Team, int kChunks, class Work, class Place>
TS_DEVICE void turn_queries(const Work& work, const NewKeys& keys, bool writes, Place place) {
  constexpr int kUnits = kChunks / 2, kChunksOfRow = cfg::kHeadDimQk / 8;
  static_assert(kChunks % 2 == 0, "two chunks of each unit");
  const TsCudaDecodeArgs& args = work.args;
  const int pairs = args.append.rotary_dim / 16, count = work.item.rows(args);
#pragma unroll 1
  for (int i = Team::thread(); i < kTileM * kUnits; i += Team::kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    const bool valid = row < count;
    TurnedUnit x;
    const i64 position = valid && pairs > 0 ? position_of(args, keys, work.item.query(args, row)) : 0;
    x.load(args.append, valid ? work.row_of(args.q, args.q_strides, row) : nullptr, kChunksOfRow, unit, pairs, position);
    x.turn(args.append);
    if (writes && valid && args.append.q_out != nullptr && has_table_row(args.append, position))
      x.store(args.append, const_cast<char*>(work.row_of(args.append.q_out, args.append.q_out_strides, row)),
              kChunksOfRow, unit, pairs);
    store_chunk(place(row, TurnedUnit::chunk_a(args.append, unit, pairs)), x.a);
    store_chunk(place(row, TurnedUnit::chunk_b(args.append, unit, pairs)), x.b);
  }
}

}  // namespace ts
