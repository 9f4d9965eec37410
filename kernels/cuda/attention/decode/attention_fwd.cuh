// Attention forward for few queries and many keys, sm_80 and newer: the keys of a sequence are cut into pieces, which
// blocks of threads work on at the same time. What bounds it is memory; so every warp has many copies under way.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise):
//   kBf16 (bool)            the element type: bf16, else fp16
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 256, with narrow keys of 16
//   kCacheFp8, kCacheInt8 (bool)   keys and values are e4m3 or int8 (narrow); one at most
//   kPageScale (bool)       with narrow keys and pages: each page or row of a page has a scale of its own
//   kRowWarps               16 rows of the tile each: (query, head of the group) pairs, all heads of a key head
//   kKeyWarps               teams of kRowWarps warps that share a block of keys out
//   kTileN                  keys of a team's step, a multiple of 16
//   kStages                 of the ring of keys and values, at least 2
//   kBlocksPerSm            that share an SM
//   kTakesFromQueue (bool)  blocks of a list that has more pieces take the next one from a queue, else they take turns
//   kMaskRight, kMaskLeft (bool)   the window is bounded on that side
//   kPaged (bool)                  keys and values lie in pages, up to 192 elements of the queries' type perhaps in vectorized ones
//   kGroupMode, kLse, kSink, kSoftCap, kBias, kAlibi, kNegativeScale (bool); kDropout (bool): false
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory at least (layout.cuh), along x a block for each tile of
// rows of each piece (TensorPiece); in group mode or with pages any number of blocks, which take pieces from a queue. On
// sm_90 and newer it may start while the preceding kernel of the stream ends. Pointers and strides of q, k, v and o are
// multiples of 16 bytes.
//
// A team copies its own keys and values and waits for nobody else. Values arrive while keys are scored, and every part
// of the ring is filled again as soon as it has been read.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../common/launch.cuh"
#include "layout.cuh"
#include "new_keys.cuh"
#include "parts_join.cuh"
#include "products.cuh"

namespace ts {

struct Decode : PieceWork<Decode> {
  float s[kScores];
  u32 p[kScores / 2];
  float o[kOutputColumns / 2];
  RowState rows;
  float row_scale[2];                 // kScaledQueries
  ScaleBase scale_base;               // kBasedScales
  PagesOfStep<cfg::kTileN> pages;  // kPaged

  using PieceWork<Decode>::PieceWork;

  TS_DEVICE static int team() { return threadIdx.x / kTeamThreads; }
  TS_DEVICE static int row_of_warp() { return threadIdx.x / 32 % cfg::kRowWarps * kWarpRows; }

  // Makes what the team's threads copied or read known to all of them.
  TS_DEVICE static void sync_team() {
    if constexpr (cfg::kRowWarps == 1) {
      __syncwarp();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + team()), "n"(kTeamThreads) : "memory");
    }
  }

  TS_DEVICE u32 part(int step) const {
    return shared + kRingOffset + step % cfg::kStages * kStageBytes + team() * kPartBytes;
  }
  TS_DEVICE int first_key(int step) const { return (piece.first_tile + step) * kTileKeys + team() * cfg::kTileN; }

  // Copies the team's rows of a step; keys that no row sees become zeros, and nothing of theirs is read. Where all are
  // seen, a thread has the same chunk of every so many rows, and works out their places before the first copy.
  template <int kPitch, int kColumns>
  TS_DEVICE void copy_rows(u32 destination, const KeyRows& from, int step) const {
    constexpr int kChunks = (kPitch - kRowPad) / 16, kCopies = cfg::kTileN * kChunks;
    constexpr bool kWhole = kColumns * kKeyBytes == kPitch - kRowPad;
    constexpr bool kEven = kTeamThreads % kChunks == 0 && kCopies % kTeamThreads == 0 && kWhole;
    const int first = first_key(step), thread = threadIdx.x % kTeamThreads;
    if (kEven && first >= piece.begin && first + cfg::kTileN <= piece.end) {
      constexpr int kRowsAtOnce = kTeamThreads / kChunks, kRows = kCopies / kTeamThreads;
      constexpr int kBatch = kRows % 8 != 0 ? kRows : kOutputColumns > 192 ? 4 : 8;  // places that are held at a time
      const int row = thread / kChunks, chunk = thread % kChunks;
      const i64 offset = from.chunk_offset(chunk);
      const u32 to = destination + row * kPitch + place_of_chunk(row, chunk);
      const auto rows_below = [&](int rows) { return (kSwizzled ? to ^ 16 * (rows & 7) : to) + rows * kPitch; };
      if constexpr (cfg::kPaged && kRowsAtOnce <= 32) {
        i64 offsets[PagesOfStep<cfg::kTileN>::kShare];
#pragma unroll
        for (int i = 0; i < PagesOfStep<cfg::kTileN>::kShare; ++i) offsets[i] = pages.offset(args, from, first, i);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const int before = i * kRowsAtOnce;  // rows
          const i64 at = __shfl_sync(0xffffffffu, offsets[before / 32], row + before % 32);
          copy_from_far(rows_below(before), from.base + at + offset);
        }
      } else {
#pragma unroll
        for (int done = 0; done < kRows; done += kBatch) {
          const char* rows[kBatch];
#pragma unroll
          for (int i = 0; i < kBatch; ++i)
            rows[i] = i > 0 && !cfg::kPaged ? rows[i - 1] + kRowsAtOnce * from.row_bytes
                                            : from.at(args, item, first + row + (done + i) * kRowsAtOnce) + offset;
#pragma unroll
          for (int i = 0; i < kBatch; ++i) copy_from_far(rows_below((done + i) * kRowsAtOnce), rows[i]);
        }
      }
      return;
    }
#pragma unroll 2
    for (int i = thread; i < kCopies; i += kTeamThreads) {
      const int row = i / kChunks, chunk = i % kChunks, key = first + row;
      const bool valid =
          key >= piece.begin && key < piece.end && (kWhole || chunk * 16 < kColumns * kKeyBytes);
      copy_async(destination + row * kPitch + place_of_chunk(row, chunk), valid ? from.at(args, item, key) + from.chunk_offset(chunk) : from.base,
                 valid);
    }
  }

  // Copies the team's values of a step from vectorized pages, as columns; keys that no row sees become zeros. Of a vector
  // with others beside them the elements are chosen on the way.
  TS_DEVICE void copy_value_columns(u32 destination, const KeyRows& from, int step) const {
    constexpr int kOfWarp = 32 / 8, kVectors = cfg::kTileN / 8;  // whose pages the lanes of a warp have looked up at once
    const int first = first_key(step);
#pragma unroll
    for (int share = 0; share < PagesOfStep<cfg::kTileN>::kShare; ++share) {
      const i64 offset = pages.offset(args, from, first, share);
#pragma unroll 1
      for (int of_warp = 0; of_warp < imin(kOfWarp, kVectors); ++of_warp) {
        const int vector = share * kOfWarp + of_warp, key = first + 8 * vector;
        const int begin = imin(8, imax(0, piece.begin - key)), end = imin(8, piece.end - key);
        // The page of a key that is seen has been looked up.
        const int seen = imin(begin, 7);
        const char* const at =
            from.base + __shfl_sync(0xffffffffu, offset, 8 * of_warp + seen) - seen * from.row_bytes;
        for (int column = threadIdx.x % kTeamThreads; column < cfg::kHeadDimV; column += kTeamThreads)
          copy_vector(destination + place_of_vector(column, vector), at + 16 * column, begin, end);
      }
    }
  }

  // Copies a vector of eight keys, of which begin .. end - 1 are seen.
  TS_DEVICE static void copy_vector(u32 to, const char* from, int begin, int end) {
    if (begin == 0 && end == 8) return copy_async(to, from, true);
    u32 x[4];
    load_eight(x, from, begin < end);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (2 * i < begin || 2 * i >= end) x[i] &= 0xffff0000u;
      if (2 * i + 1 < begin || 2 * i + 1 >= end) x[i] &= 0xffffu;
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
  }

  // Copies the scales of a step's keys or values, which lie in pages.
  TS_DEVICE void copy_scales(u32 destination, const KeyRows& from, int step) const {
#pragma unroll
    for (int i = 0; i < PagesOfStep<cfg::kTileN>::kShare; ++i) {
      const int of_step = 32 * i + lane(), key = first_key(step) + of_step;
      if (i % cfg::kRowWarps != threadIdx.x / 32 % cfg::kRowWarps || of_step >= cfg::kTileN) continue;
      const bool valid = key >= piece.begin && key < piece.end;
      copy_async_word(destination + 4 * of_step, from.base + (valid ? pages.offset(args, from, first_key(step), i) : 0),
                      valid);
    }
  }

  TS_DEVICE void score(u32 keys) {
    multiply_keys(s, shared + row_of_warp() * kPitchQ, keys);
    if constexpr (kScaledQueries) scale_rows(s, row_scale);
  }

  TS_DEVICE void multiply_values(u32 values) {
#pragma unroll
    for (int k = 0; k < cfg::kTileN / 16; ++k) {
      const u32 a[4] = {p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]};
      if (kReadsVectors && args.paged.vectorized)
        add_value_columns<kOutputColumns>(o, a, values, k);
      else
        add_values<kPitchV, kOutputColumns>(o, a, values + 16 * k * kPitchV);
    }
  }

  // Scores of a step to probabilities; outputs so far are brought to the rows' new bases.
  TS_DEVICE void finish_scores(int first, bool cut) {
    finish_logits_of(s, first, cut);
    float factor[2];
    update_softmax<false, true>(s, rows, factor, unit);
    if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kOutputColumns / 2; ++i) o[i] *= factor[(i >> 1) & 1];
    }
    if constexpr (!kScaledRows) pack_operands();
  }

  // By the scales of their values.
  TS_DEVICE void scale_probabilities(u32 scales) {
    if constexpr (kBasedScales) {
      const float factor = scale_base.follow<cfg::kTileN>(scales);
      if (factor != 1.0f) {
#pragma unroll
        for (int i = 0; i < kOutputColumns / 2; ++i) o[i] *= factor;
      }
      apply_scales(s, scales, scale_base.factor());
    } else {
      apply_scales(s, scales);
    }
  }

  TS_DEVICE void pack_operands() {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) p[i] = pack<kValuesBf16>(s[2 * i], s[2 * i + 1]);
  }

  TS_DEVICE void walk() {
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; ++i) o[i] = 0.0f;
    rows = {{-kInfinity, -kInfinity}, {0.0f, 0.0f}};
    scale_base = {};
    KeyRows keys(args, item, args.k, args.k_strides), values(args, item, args.v, args.v_strides);
    if (kReadsVectors && args.paged.vectorized) {
      keys.be_vectorized_keys(args);
      values.be_vectorized_values();
    }
    const KeyRows key_scales(item, args.k_scale), value_scales(item, args.v_scale);
    const int steps = piece.end_tile - piece.first_tile;
    const int last_row = item.rows(args) - 1;
    const int whole_end = key_end(args, item.length, item.query(args, 0));
    const int whole_begin = key_begin(args, item.length, item.query(args, last_row));
    // A group of copies for the keys and one for the values of each step, also behind the last step: then what is
    // waited for always has 2 * kStages - 1 younger groups.
    const auto copy_keys = [&](int step) {
      if (step < steps) {
        if constexpr (cfg::kPaged) pages.advance(args);
        copy_rows<kPitchK, cfg::kHeadDimQk>(part(step), keys, step);
        if constexpr (kScaledRows) copy_scales(part(step) + kScalesOfPart, key_scales, step);
        if constexpr (cfg::kPaged) pages.look_up(args, item, piece, first_key(step + 1));
      }
      copy_commit();
    };
    const auto copy_values = [&](int step) {
      if (step < steps) {
        if (kReadsVectors && args.paged.vectorized)
          copy_value_columns(part(step) + kValuesOfPart, values, step);
        else
          copy_rows<kPitchV, cfg::kHeadDimV>(part(step) + kValuesOfPart, values, step);
        if constexpr (kScaledRows)
          copy_scales(part(step) + kScalesOfPart + 4 * cfg::kTileN, value_scales, step);
      }
      copy_commit();
    };
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
    if (appends(args)) {
      const NewKeysOfPiece of_piece(NewKeys(args, item), piece);
      const int written = of_piece.first_step(piece);
      if (written < steps) write_new_keys<WholeBlock>(args, item, NewKeys(args, item), of_piece);
      if (written < cfg::kStages) __syncthreads();
    } else {
      copy_queries();
    }
    copy_commit();
#pragma unroll 1
    for (int step = 0; step < cfg::kStages; ++step) {
      copy_keys(step);
      copy_values(step);
    }
    // Keys arrive meanwhile.
    if (appends(args)) {
      const NewKeys brought(args, item);
      turn_queries<WholeBlock, kDepthQk / 8>(
          *this, brought, NewKeysOfPiece(brought, piece).has_first(brought),
          [&](int row, int chunk) { return shared + row * kPitchQ + 16 * chunk; });
    }
    copy_wait_for<2 * cfg::kStages>();
    __syncthreads();
    if constexpr (kScaledQueries) load_row_scales(row_scale);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      if (!kUneven && step == imax(0, steps - args.end_tiles)) let_next_kernel_start();
      const int first = first_key(step);
      copy_wait_for<2 * cfg::kStages - 1>();
      sync_team();
      score(part(step));
      if constexpr (kScaledRows) apply_scales(s, part(step) + kScalesOfPart);
      sync_team();
      copy_keys(step + cfg::kStages);
      finish_scores(first, first + cfg::kTileN > whole_end || first < whole_begin);
      copy_wait_for<2 * cfg::kStages - 1>();
      sync_team();
      if constexpr (kScaledRows) {
        scale_probabilities(part(step) + kScalesOfPart + 4 * cfg::kTileN);
        pack_operands();
      }
      multiply_values(part(step) + kValuesOfPart);
      sync_team();
      copy_values(step + cfg::kStages);
    }
    copy_wait();
    if constexpr (kBasedScales) {
#pragma unroll
      for (int i = 0; i < kOutputColumns / 2; ++i) o[i] *= scale_base.inverse();
    }
    if constexpr (cfg::kPaged)
      if (__any_sync(0xffffffffu, pages.lost)) rows.sum[0] = rows.sum[1] = lost_sum();
  }

  // Leaves what the warps have where all threads find it.
  TS_DEVICE void spread() const {
    __syncthreads();  // the ring is free
    const int row = team() * kTileM + row_of_warp() + lane() / 4;
    const u32 results = shared + kRingOffset;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      spread_row<kOutputColumns>(results + 4 * (row + 8 * r) * kPitchO, o, r);
      const float base = base_logit(rows.peak[r]), sum = quad_sum(rows.sum[r]);
      if ((lane() & 3) == 0)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(results + kStatesOffset + 8 * (row + 8 * r)), "f"(base),
                     "f"(sum)
                     : "memory");
    }
    __syncthreads();
  }

  TS_DEVICE Joined<> join_warps(int row, int column) const {
    const u32 results = shared + kRingOffset;
    Joined<> joined;
#pragma unroll
    for (int t = 0; t < cfg::kKeyWarps; ++t) {
      const int place = t * kTileM + row;
      float values[4];
      load_floats(values, results + 4 * (place * kPitchO + column));
      joined.add(load_state(results + kStatesOffset + 8 * place), values);
    }
    return joined;
  }

};

}  // namespace ts

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaDecodeArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const ts::u32 shared = ts::smem_address(dynamic_shared);
  if (args.join == TS_DECODE_JOINS) return ts::PartsJoin(args, shared).run();
  ts::Decode decode(args, shared);
  decode.prefetch();
  if constexpr (!ts::kStartsEarly) {
    ts::wait_for_previous_kernel();
    if (ts::kUneven && args.end_tiles > 0) ts::let_next_kernel_start();
  }
  decode.run();
}
