// Attention forward for AMD GPUs with a matrix unit, MFMA (CDNA) or WMMA (RDNA), with every trait of the contract.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise):
//   kBf16 (bool)             the element type: bf16, else fp16
//   kHeadDimQk, kHeadDimV    up to 256; rows of whole 16 bytes, unless kUnaligned
//   kUnaligned (bool)        reads and writes q, k, v and o by single elements: for pointers, strides and head
//   dimensions
//                            that are no multiples of 16 bytes
//   kWaves                   of a block
//   kColumnWaves             that share kFragment rows: each computes their scores, and a part of the columns of
//   outputs kTileN                   keys of a block of keys kSharedPlace (bool)      values take the keys' place in
//   local memory, after another barrier kQueriesInLds (bool)     queries stay in local memory instead of registers
//   kWavesOfSimd             waves that a SIMD has at least (bounds the registers)
//   kMaskRight, kMaskLeft (bool)   the window is bounded on that side
//   kGroupMode, kLse, kSink, kSoftCap, kBias, kAlibi, kDropout, kNegativeScale (bool)
//   kPackGqa (bool)          a tile's rows are those of all query heads of a key head
//   kSplit (bool)            blocks share out the keys of an item
//   kPaged (bool)            keys and values lie in pages
//   kCacheFp8, kCacheInt8 (bool)   keys and values are e4m3 or int8, one at most; times k_scale and v_scale
//   kPageScale (bool)        of these in pages: each page, or row of a page, has a scale of its own
//   kLanes                   of a wave; and the instruction, see common/matrix.h: TS_MATRIX_BUILTIN, kOperand,
//                            kOperandWords, kFragment, kGroupsK, kRunOfResults, kIntegers (false)
//
// Launch: kThreads threads (layout.h), no dynamic local memory, a grid of batch * row_tiles * heads * pieces blocks;
// `heads` are those of queries or, with kPackGqa, of keys. Without kSplit, pieces is 1.
//
// A lane has scores, probabilities and outputs of one row, in registers throughout. Values arrive while keys are
// multiplied, and the next block's keys while values are.
#pragma once

#include "copies.h"
#include "scores.h"

namespace ts {

class Attention {
 public:
  TS_DEVICE Attention(const TsHipAttentionArgs& args, const Item& item, TS_LDS u8* shared)
      : args_(args),
        item_(item),
        keys_(shared),
        values_(shared + kValueOffset),
        queries_(shared + kQueryOffset),
        scales_(reinterpret_cast<TS_LDS float*>(shared + kScaleOffset)),
        lane_(thread_index() % kFragment),
        part_(thread_index() % cfg::kLanes / kFragment),
        tile_row_(thread_index() / cfg::kLanes / cfg::kColumnWaves * kFragment + lane_),
        first_column_(thread_index() / cfg::kLanes % cfg::kColumnWaves * kColumnFragments * kFragment),
        // A row that is not there is the last one again: what it makes is not stored.
        place_(args, item, imin(item.first_row + tile_row_, item.end_row - 1), part_) {}

  TS_DEVICE void run(int piece) {
    const KeySource k(args_, item_, args_.k, args_.k_strides);
    const KeySource v(args_, item_, args_.v, args_.v_strides);
    KeyCopy keys;
    ValueCopy values;
    ScaleCopy key_scales, value_scales;
    const int begin = item_.blocks.begin + (cfg::kSplit ? piece * args_.piece_tiles : 0);
    const int end = cfg::kSplit ? imin(begin + args_.piece_tiles, item_.blocks.end) : item_.blocks.end;
    const int first = query_of(args_, item_.first_row), last = query_of(args_, item_.end_row - 1);
    const int whole_end = key_end(args_, item_.length, first) / cfg::kTileN;
    const int whole_begin = ceil_div(key_begin(args_, item_.length, last), cfg::kTileN);
    const float unit = logit_unit(args_, place_.scale);

    if (item_.begin < item_.end) {
      keys.load(k, recomputed_uniform((end - 1) * cfg::kTileN));
      key_scales.load(k, args_.k_scale, (end - 1) * cfg::kTileN);
      load_queries();
      keys.store(keys_);
      key_scales.store(scales_);
      for (int n = end - 1; n >= begin; --n) {
        const int first_key = recomputed_uniform(n * cfg::kTileN);
        block_barrier();
        values.load(v, first_key);
        value_scales.load(v, args_.v_scale, first_key);
        score();
        if constexpr (kScaledRows) scale_rows(scales_, part_, scores_);
        if constexpr (cfg::kSharedPlace) block_barrier();
        values.store(values_);
        value_scales.store(scales_ + cfg::kTileN);
        block_barrier();
        if (n > begin) {
          keys.load(k, first_key - cfg::kTileN);
          key_scales.load(k, args_.k_scale, first_key - cfg::kTileN);
        }
        finish_scores(args_, place_, first_key, n >= whole_end || n < whole_begin, scores_);
        scale_outputs(update_softmax(scores_, state_, unit, part_));
        if constexpr (cfg::kDropout) drop(args_, place_, first_key, scores_);
        if constexpr (kScaledRows) scale_rows(scales_ + cfg::kTileN, part_, scores_);
        multiply_values();
        if (n == begin) break;
        if constexpr (cfg::kSharedPlace) block_barrier();
        keys.store(keys_);
        key_scales.store(scales_);
      }
    }
    if (cfg::kSplit && item_.pieces > 1)
      store_partial(piece);
    else
      store();
  }

 private:
  // The lane's part of a step of its own row.
  TS_DEVICE static int chunk_of_step(int step, int part) {
    return (step * cfg::kGroupsK + (cfg::kGroupsK == 1 ? 0 : part)) * kLaneChunks;
  }
  TS_DEVICE void load_queries() {
    const u16* const row =
        rows_of(item_, static_cast<const u16*>(args_.q), args_.q_strides, place_.head, item_.offset_q) +
        place_.query * args_.q_strides.row;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (cfg::kQueriesInLds && step % 4 == 0) schedule_apart();  // long rows are not held whole
#pragma unroll
      for (int c = 0; c < kLaneChunks; ++c) {
        const int chunk = chunk_of_step(step, part_) + c;
        const Words4 words =
            cut_chunk<cfg::kHeadDimQk>(load_chunk<cfg::kHeadDimQk, 2>(reinterpret_cast<const u8*>(row), chunk), chunk);
        if constexpr (cfg::kQueriesInLds) {
          *reinterpret_cast<TS_LDS Words4*>(queries_ + KeyRows::offset(tile_row_, chunk)) = words;
        } else {
#pragma unroll
          for (int w = 0; w < 4; ++w) query_[step][4 * c + w] = words[w];
        }
      }
    }
  }

  TS_DEVICE void score() {
#pragma unroll
    for (int j = 0; j < kKeyFragments; ++j) scores_[j] = Sums{};
    const int lane = recomputed(lane_), part = recomputed(part_), tile_row = recomputed(tile_row_);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      schedule_apart();
      const int chunk = chunk_of_step(step, part);
      u32 query[4 * kLaneChunks], key[kKeyFragments][4 * kLaneChunks];
      if constexpr (cfg::kQueriesInLds) {
        KeyRows::read(queries_, tile_row, chunk, query);
      } else {
#pragma unroll
        for (int w = 0; w < 4 * kLaneChunks; ++w) query[w] = query_[step][w];
      }
#pragma unroll
      for (int j = 0; j < kKeyFragments; ++j) KeyRows::read(keys_, j * kFragment + lane, chunk, key[j]);
#pragma unroll
      for (int p = 0; p < kInstructions; ++p) {
#pragma unroll
        for (int j = 0; j < kKeyFragments; ++j) multiply_add(operand(key[j], p), operand(query, p), scores_[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kKeyFragments; ++j) pin(scores_[j]);
  }

  TS_DEVICE void scale_outputs(float factor) {
    if (!any_lane(factor != 1.0f)) return;
#pragma unroll
    for (int n = 0; n < kColumnFragments; ++n) {
#pragma unroll
      for (int r = 0; r < kResults; ++r) outputs_[n][r] *= factor;
    }
  }

  TS_DEVICE void multiply_values() {
    const int column = recomputed(first_column_ + column_of_row(lane_)), part = recomputed(part_);
    constexpr int kShareChunks = kShare / kChunk;
#pragma unroll
    for (int first = 0; first < kKeyFragments; first += kJoin) {
      u32 probabilities[kProductWords];
      pack_probabilities(scores_, first, part_, probabilities);
      const int chunk = (first / kJoin * kParts + (kOperandShares == 1 ? part : 0)) * kShareChunks;
#pragma unroll
      for (int n = 0; n < kColumnFragments; ++n) {
        schedule_apart();
        u32 values[kProductWords];
        ValueRows::read(values_, n * kFragment + column, chunk, values);
#pragma unroll
        for (int p = 0; p < kProductWords / cfg::kOperandWords; ++p)
          multiply_add(operand(values, p), operand(probabilities, p), outputs_[n]);
      }
    }
  }

  TS_DEVICE bool has_row() const {
    return item_.first_row + tile_row_ < item_.end_row;
  }
  // One lane of all that have parts of the row.
  TS_DEVICE bool is_first_of_row() const {
    return part_ == 0 && first_column_ == 0;
  }
  // The column of the lane's first result of a fragment.
  TS_DEVICE int column_of_results(int n) const {
    return first_column_ + n * kFragment + part_ * kResults;
  }

  TS_DEVICE void store() {
    const float sink = cfg::kSink && args_.sink != nullptr ? args_.sink[place_.head] : -kInfinity;
    const RowResult result = finish_row<cfg::kSink>(state_.base, sum_of_row(state_.sum, part_), sink);
    if (!has_row()) return;
    if (cfg::kLse && args_.lse != nullptr && is_first_of_row())
      rows_of(item_, args_.lse, args_.lse_strides, place_.head, item_.offset_q)[place_.query * args_.lse_strides.row] =
          result.lse;
    u16* const row = rows_of(item_, static_cast<u16*>(args_.o), args_.o_strides, place_.head, item_.offset_q) +
                     place_.query * args_.o_strides.row;
    const float factor = result.scale * keep_scale(args_) * item_scale(args_, item_, args_.v_scale);
    const bool empty = result.scale == 0.0f;  // zero whatever the outputs are: 0 * NaN is not
    constexpr int kRun = imin(kResults, kChunk);
#pragma unroll
    for (int n = 0; n < kColumnFragments; ++n) {
#pragma unroll
      for (int r = 0; r < kResults; r += kRun) {
        typedef u32 Run __attribute__((vector_size(2 * kRun)));
        Run run;
#pragma unroll
        for (int e = 0; e < kRun; e += 2)
          run[e / 2] = empty ? 0 : pack<cfg::kBf16>(outputs_[n][r + e] * factor, outputs_[n][r + e + 1] * factor);
        const int column = column_of_results(n) + r;
        if constexpr (cfg::kUnaligned) {
#pragma unroll
          for (int e = 0; e < kRun; ++e)
            if (column + e < cfg::kHeadDimV) row[column + e] = static_cast<u16>(run[e / 2] >> 16 * (e % 2));
        } else if (column < cfg::kHeadDimV) {
          *reinterpret_cast<Run*>(row + column) = run;
        }
      }
    }
  }

  // The row's outputs as they are, its base and its sum.
  TS_DEVICE void store_partial(int piece) const {
    constexpr int kRowFloats = cfg::kHeadDimV + TS_HIP_STATE_FLOATS;
    const float sum = sum_of_row(state_.sum, part_);
    if (!has_row()) return;
    float* const row = args_.partials + partial_of(args_, item_) + (i64{piece} * kTileM + tile_row_) * kRowFloats;
#pragma unroll
    for (int n = 0; n < kColumnFragments; ++n) {
#pragma unroll
      for (int r = 0; r < kResults; ++r)
        if (column_of_results(n) + r < cfg::kHeadDimV) row[column_of_results(n) + r] = outputs_[n][r];
    }
    if (!is_first_of_row()) return;
    row[cfg::kHeadDimV] = state_.base;
    row[cfg::kHeadDimV + 1] = sum;
  }

  const TsHipAttentionArgs& args_;
  const Item& item_;
  TS_LDS u8* const keys_;
  TS_LDS u8* const values_;
  TS_LDS u8* const queries_;
  TS_LDS float* const scales_;
  int lane_, part_, tile_row_, first_column_;
  Row place_;
  RowState state_;
  u32 query_[cfg::kQueriesInLds ? 1 : kSteps][4 * kLaneChunks];
  Sums scores_[kKeyFragments];
  Sums outputs_[kColumnFragments] = {};
};

// Which block has which item: heads go first, so that the dies of one GPU, which take blocks in turn, each have the
// same heads; among a head's tiles the last ones, which see the most keys of a causal mask.
TS_DEVICE void attend(const TsHipAttentionArgs& args, TS_LDS u8* shared) {
  const int heads = static_cast<int>(cfg::kPackGqa ? args.heads_kv : args.heads_q);
  int rest = block_index();
  const int head = uniform(rest % heads);
  rest /= heads;
  int piece = 0;
  if constexpr (cfg::kSplit) {
    piece = uniform(rest % args.pieces);
    rest /= args.pieces;
  }
  const int tile = uniform(args.row_tiles - 1 - rest % args.row_tiles), batch = uniform(rest / args.row_tiles);
  const Item item = item_of(args, batch, head, tile);
  if (item.first_row >= item.end_row || piece >= item.pieces) return;
  Attention(args, item, shared).run(piece);
}

}  // namespace ts

#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

TS_KERNEL(ts::kThreads, ts::cfg::kWavesOfSimd) TS_ENTRY(const TsHipAttentionArgs args) {
  TS_LDS_ARRAY ts::u8 shared[ts::kLdsBytes] __attribute__((aligned(16)));
  ts::attend(args, shared);
}
