// Attention forward for sm_80 and newer: mma.sync, ldmatrix, cp.async. It carries every trait of the contract; the
// Hopper template is faster where it applies.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise):
//   kFp32 (bool)            float32, multiplied as tf32
//   kTf32x3 (bool)          float32: each operand is split into two tf32 numbers that are multiplied in three ways, which
//                           is about as exact as float32; else operands are rounded to tf32
//   kBf16 (bool)            the 16-bit element type: bf16, else fp16
//   kHeadDimQk, kHeadDimV   1 to 512; rows of whole 16 bytes, unless kUnaligned
//   kChunkQk                elements of head_dim_qk that are in shared memory at a time, a multiple of 16; at least
//                           kHeadDimQk: all of them, and queries are read once
//   kColumnBlocks           blocks of threads that share head_dim_v out
//   kUnaligned (bool)       reads and writes q, k, v and o by single elements: for pointers, strides and head dimensions
//                           that are no multiples of 16 bytes
//   kWarps                  16 rows of the tile each
//   kTileN                  keys of a block, a multiple of 32
//   kMaskRight, kMaskLeft (bool)   the window is bounded on that side
//   kGroupMode, kLse, kSink, kSoftCap, kBias, kAlibi, kDropout, kNegativeScale (bool)
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), grid (row_tiles * kColumnBlocks,
// heads_q, batch) with row_tiles = ceil(seqlen_q / (16 * kWarps)). Pointers and strides of q, k, v and o are multiples of 16 bytes,
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
#include "products.cuh"

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

  int first_column;  // of values and outputs
  float s[kScores];
  u32 p[kScores / 2];
  float o[kOutputColumns / 2];
  RowState rows;

  TS_DEVICE int lane() const { return threadIdx.x & 31; }

  TS_DEVICE const char* tensor(const void* base, const TsStrides& strides, i64 tensor_head, i64 row) const {
    return static_cast<const char*>(base) +
           kElementBytes * ((cfg::kGroupMode ? 0 : batch * strides.batch) + tensor_head * strides.head + row * strides.row);
  }

  // Adds what a chunk of the head dimension gives.
  TS_DEVICE void score() {
    multiply_rows<kDepthQk * kElementBytes / 32, cfg::kTileN, kPitchQk>(
        s, shared + threadIdx.x / 32 * kWarpRows * kPitchQk, shared + kKeyOffset);
  }

  TS_DEVICE void scale_outputs(const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; ++i) o[i] *= factor[(i >> 1) & 1];
  }

  // Scales the outputs and adds what a block of keys gives.
  TS_DEVICE void multiply_values_fp32(const float (&factor)[2]) {
    if constexpr (!cfg::kTf32x3) scale_outputs(factor);
#pragma unroll
    for (int key = 0; key < cfg::kTileN; key += kShortSum) {
      Operand<4> a[kShortSum / 8];
      take_weights(a, s + key / 2);
#pragma unroll
      for (int n = 0; n < kOutputColumns; n += 16) {
        const u32 values = shared + kValueOffset + key * kPitchV + 4 * n;
        if constexpr (!cfg::kTf32x3) {
          multiply_columns_fp32<kPitchV>(o + n / 2, a, values);
        } else {
          __syncwarp();  // else the compiler loads values of several groups ahead, and spills
          float sums[8] = {};
          multiply_columns_fp32<kPitchV>(sums, a, values);
#pragma unroll
          for (int i = 0; i < 8; ++i)
            o[n / 2 + i] = key == 0 ? __fmaf_rn(o[n / 2 + i], factor[(i >> 1) & 1], sums[i]) : o[n / 2 + i] + sums[i];
        }
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
      if (cfg::kLse && args.lse != nullptr && inside && first_column == 0 && (lane() & 3) == 0) {
        args.lse[(cfg::kGroupMode ? 0 : batch * args.lse_strides.batch) + head * args.lse_strides.head +
                 position * args.lse_strides.row] = result.lse;
      }
      char* const row = const_cast<char*>(tensor(args.o, args.o_strides, head, position));
      char* const out = inside ? row + kElementBytes * first_column : nullptr;
      const int columns = cfg::kHeadDimV - first_column;
      const float factor = result.scale * keep_scale(args);
      if constexpr (cfg::kFp32) {
        store_row_fp32(out, o, r, factor, columns);
      } else if constexpr (cfg::kUnaligned) {
        store_row_by_elements<cfg::kBf16>(out, o, r, factor, columns);
      } else {
        store_row<cfg::kBf16>(out, o, r, factor, columns);
      }
    }
  }

  TS_DEVICE void run() {
    batch = blockIdx.z;
    head = blockIdx.y;
    // The last rows of a causal mask see the most keys: they go first.
    first_row = (gridDim.x - 1 - blockIdx.x) / cfg::kColumnBlocks * kTileM;
    first_column = cfg::kColumnBlocks > 1 ? blockIdx.x % cfg::kColumnBlocks * kOutputColumns : 0;
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
    const char* const v = tensor(args.v, args.v_strides, head_kv, offset_k) + kElementBytes * first_column;
    const int last_row = imin(first_row + kTileM, length.q) - 1;
    const BlockRange blocks = visible_blocks(args, length, first_row, last_row);
    const int whole_end = key_end(args, length, first_row) / cfg::kTileN;
    const int whole_begin = ceil_div(key_begin(args, length, last_row), cfg::kTileN);

    const auto load_queries = [&](int chunk) {
      const int column = chunk * cfg::kChunkQk;
      load_rows<kThreads, kTileM, kPitchQk>(shared, q + kElementBytes * column, kElementBytes * args.q_strides.row, first_row,
                                  length.q, cfg::kHeadDimQk - column);
    };
    const auto load_keys = [&](int first_key, int chunk) {
      const int column = chunk * cfg::kChunkQk;
      load_rows<kThreads, cfg::kTileN, kPitchQk>(shared + kKeyOffset, k + kElementBytes * column,
                                       kElementBytes * args.k_strides.row, first_key, length.k,
                                       cfg::kHeadDimQk - column);
    };

    load_queries(0);
    load_keys((blocks.end - 1) * cfg::kTileN, 0);
    copy_commit();
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; ++i) o[i] = 0.0f;
    rows = {{-kInfinity, -kInfinity}, {0.0f, 0.0f}};
    for (int n = blocks.end - 1; n >= blocks.begin; --n) {
      const int first_key = n * cfg::kTileN;
      copy_wait();
      __syncthreads();
      load_rows<kThreads, cfg::kTileN, kPitchV>(shared + kValueOffset, v, kElementBytes * args.v_strides.row, first_key, length.k,
                                      cfg::kHeadDimV - first_column);
      copy_commit();
#pragma unroll
      for (int i = 0; i < kScores; ++i) s[i] = 0.0f;
      score();
#pragma unroll 1
      for (int chunk = 1; chunk < kChunks; ++chunk) {
        __syncthreads();
        load_queries(chunk);
        load_keys(first_key, chunk);
        copy_commit();
        copy_wait();
        __syncthreads();
        score();
      }
      copy_wait();
      __syncthreads();
      if (n > blocks.begin) {
        if (kChunks > 1) load_queries(0);
        load_keys(first_key - cfg::kTileN, 0);
        copy_commit();
      }
      const bool cut = n >= whole_end || n < whole_begin;
      if (cfg::kSoftCap && cut) mask(first_key);  // a soft cap mixes neighbours: no hidden NaN may reach them
      const int column = first_key + 2 * (lane() & 3);
      finish_logits(args, args.scale, alibi, GlobalBias<>{args, length, place, column}, column, s);
      if (cut) mask(first_key);
      float factor[2];
      update_softmax<false, true>(s, rows, factor, unit);
      if constexpr (cfg::kDropout) drop(args, place, first_key, s);
      if constexpr (cfg::kFp32) {
        multiply_values_fp32(factor);
      } else {
        scale_outputs(factor);
        pack_probabilities(s, p);
        multiply_columns<cfg::kTileN, kOutputColumns, kPitchV>(o, p, shared + kValueOffset);
      }
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
