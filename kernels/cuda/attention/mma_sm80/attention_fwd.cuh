// Attention forward for sm_80 and newer: mma.sync, ldmatrix, cp.async. It carries every trait of the contract; the
// Hopper template is faster where it applies.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise):
//   kBf16 (bool)            element type bf16, else fp16
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 256; with kUnaligned any number up to 256
//   kUnaligned (bool)       reads and writes q, k, v and o by single elements: for pointers and strides that are no
//                           multiples of 16 bytes, and head dimensions that are no multiples of 8
//   kWarps                  16 rows of the tile each
//   kTileN                  keys of a block, a multiple of 32
//   kMaskRight, kMaskLeft (bool)   the window is bounded on that side
//   kGroupMode, kLse, kSink, kSoftCap, kBias, kAlibi, kDropout, kNegativeScale (bool)
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), grid (row_tiles, heads_q, batch)
// with row_tiles = ceil(seqlen_q / (16 * kWarps)). Pointers and strides of q, k, v and o are multiples of 16 bytes,
// with kUnaligned of an element.
//
// A warp owns 16 rows. While it scores a block, the block's values arrive; while it multiplies them, the next block's
// keys do.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false;
}

#include "../logits.cuh"
#include "layout.cuh"

namespace ts {

struct Attention {
  const TsCudaAttentionArgs& args;
  u32 shared;
  int batch, head, first_row;
  Lengths length;
  i64 offset_q, offset_k;
  Rows place;
  Alibi alibi;
  float unit;

  float s[kScores];
  u32 p[kScores / 2];
  float o[kOutputColumns / 2];
  RowState rows;

  TS_DEVICE int lane() const { return threadIdx.x & 31; }

  TS_DEVICE const char* tensor(const void* base, const TsStrides& strides, i64 tensor_head, i64 row) const {
    return static_cast<const char*>(base) +
           2 * ((cfg::kGroupMode ? 0 : batch * strides.batch) + tensor_head * strides.head + row * strides.row);
  }

  TS_DEVICE void score() {
    const int warp_row = threadIdx.x / 32 * kWarpRows;
    const u32 a_address = shared + (warp_row + lane() % 16) * kPitchQk + lane() / 16 * 16;
    const u32 b_address = shared + kKeyOffset + (lane() / 16 * 8 + lane() % 8) * kPitchQk + lane() / 8 % 2 * 16;
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = 0.0f;
#pragma unroll
    for (int k = 0; k < kDepthQk / 16; ++k) {
      u32 a[4];
      load_matrices(a, a_address + 32 * k);
#pragma unroll
      for (int n = 0; n < cfg::kTileN; n += 16) {
        u32 b[4];
        load_matrices(b, b_address + n * kPitchQk + 32 * k);
        mma(s + n / 2, a[0], a[1], a[2], a[3], b[0], b[1]);
        mma(s + n / 2 + 4, a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
  }

  TS_DEVICE void multiply_values() {
    const u32 address = shared + kValueOffset + lane() % 16 * kPitchV + lane() / 16 * 16;
#pragma unroll
    for (int k = 0; k < cfg::kTileN / 16; ++k) {
#pragma unroll
      for (int n = 0; n < kOutputColumns; n += 16) {
        u32 b[4];
        load_matrices_transposed(b, address + 16 * k * kPitchV + 2 * n);
        mma(o + n / 2, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b[0], b[1]);
        mma(o + n / 2 + 4, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b[2], b[3]);
      }
    }
  }

  TS_DEVICE void mask(int first_key) {
    const int column = first_key + 2 * (lane() & 3);
    int begin[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      begin[r] = key_begin(args, length, place.query[r]) - column;
      end[r] = key_end(args, length, place.query[r]) - column;
    }
    mask_scores(s, begin, end);
  }

  TS_DEVICE void store() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sink = cfg::kSink && args.sink != nullptr ? args.sink[head] : -kInfinity;
      const RowResult result = finish_row<cfg::kSink>(base_logit(rows.peak[r]), quad_sum(rows.sum[r]), sink);
      const bool inside = place.query[r] < length.q;
      const i64 position = place.query[r] + offset_q;
      if (cfg::kLse && args.lse != nullptr && inside && (lane() & 3) == 0) {
        args.lse[(cfg::kGroupMode ? 0 : batch * args.lse_strides.batch) + head * args.lse_strides.head +
                 position * args.lse_strides.row] = result.lse;
      }
      char* const out = const_cast<char*>(tensor(args.o, args.o_strides, head, position));
      const float factor = result.scale * keep_scale(args);
      if constexpr (cfg::kUnaligned) {
        store_row_by_elements<cfg::kBf16, cfg::kHeadDimV>(inside ? out : nullptr, o, r, factor);
      } else {
        store_row<cfg::kBf16, cfg::kHeadDimV>(inside ? out : nullptr, o, r, factor);
      }
    }
  }

  TS_DEVICE void run() {
    batch = blockIdx.z;
    head = blockIdx.y;
    // The last rows of a causal mask see the most keys: they go first.
    first_row = (gridDim.x - 1 - blockIdx.x) * kTileM;
    length = {static_cast<int>(args.seqlen_q), static_cast<int>(args.seqlen_k)};
    offset_q = offset_k = 0;
    if constexpr (cfg::kGroupMode) {
      offset_q = args.cu_seqlens_q[batch];
      offset_k = args.cu_seqlens_k[batch];
      length = {static_cast<int>(args.cu_seqlens_q[batch + 1] - offset_q),
                static_cast<int>(args.cu_seqlens_k[batch + 1] - offset_k)};
    }
    if (first_row >= length.q) return;
    const int row = first_row + threadIdx.x / 32 * kWarpRows + lane() / 4;
    place = {batch, {head, head}, {row, row + 8}};
    unit = logit_unit(args, args.scale);
    if constexpr (cfg::kAlibi) alibi.start(args, place, length, unit);
    const i64 head_kv = head / (args.heads_q / args.heads_kv);
    const char* const q = tensor(args.q, args.q_strides, head, offset_q);
    const char* const k = tensor(args.k, args.k_strides, head_kv, offset_k);
    const char* const v = tensor(args.v, args.v_strides, head_kv, offset_k);
    const int last_row = imin(first_row + kTileM, length.q) - 1;
    const BlockRange blocks = visible_blocks(args, length, first_row, last_row);
    const int whole_end = key_end(args, length, first_row) / cfg::kTileN;
    const int whole_begin = ceil_div(key_begin(args, length, last_row), cfg::kTileN);

    load_rows<kTileM, cfg::kHeadDimQk, kPitchQk>(shared, q, 2 * args.q_strides.row, first_row, length.q);
    load_rows<cfg::kTileN, cfg::kHeadDimQk, kPitchQk>(shared + kKeyOffset, k, 2 * args.k_strides.row,
                                                      (blocks.end - 1) * cfg::kTileN, length.k);
    copy_commit();
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; ++i) o[i] = 0.0f;
    rows = {{-kInfinity, -kInfinity}, {0.0f, 0.0f}};
    for (int n = blocks.end - 1; n >= blocks.begin; --n) {
      const int first_key = n * cfg::kTileN;
      copy_wait();
      __syncthreads();
      load_rows<cfg::kTileN, cfg::kHeadDimV, kPitchV>(shared + kValueOffset, v, 2 * args.v_strides.row, first_key,
                                                      length.k);
      copy_commit();
      score();
      copy_wait();
      __syncthreads();
      if (n > blocks.begin) {
        load_rows<cfg::kTileN, cfg::kHeadDimQk, kPitchQk>(shared + kKeyOffset, k, 2 * args.k_strides.row,
                                                          first_key - cfg::kTileN, length.k);
        copy_commit();
      }
      const bool cut = n >= whole_end || n < whole_begin;
      if (cfg::kSoftCap && cut) mask(first_key);  // a soft cap mixes neighbours: no hidden NaN may reach them
      const int column = first_key + 2 * (lane() & 3);
      finish_logits(args, args.scale, alibi, GlobalBias{args, length, place, column}, column, s);
      if (cut) mask(first_key);
      float factor[2];
      update_softmax<false, true>(s, rows, factor, unit);
#pragma unroll
      for (int i = 0; i < kOutputColumns / 2; ++i) o[i] *= factor[(i >> 1) & 1];
      if constexpr (cfg::kDropout) drop(args, place, first_key, s);
      pack_probabilities(s, p);
      multiply_values();
    }
    store();
  }
};

}  // namespace ts

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaAttentionArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::Attention attention{args, ts::smem_address(dynamic_shared)};
  attention.run();
}
