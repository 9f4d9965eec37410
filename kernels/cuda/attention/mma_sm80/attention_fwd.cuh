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

  // Tensor cores cut sums off where float32 would round them, always towards zero, so that the error of a long sum grows
  // with its length. With kTf32x3 they give sums of kShortSum products, and float32 additions join these.
  static constexpr int kShortSum = 32;

  // Adds what a chunk of the head dimension gives. Short sums are made one after another and of 32 keys at a time, so
  // that they and operands loaded ahead do not take the registers of outputs.
  TS_DEVICE void score() {
    constexpr int kSteps = kDepthQk * kElementBytes / 32;
    if constexpr (!cfg::kTf32x3) {
      add_products<kSteps, cfg::kTileN>(s, 0, 0);
    } else {
      constexpr int kShort = kShortSum * kElementBytes / 32;
#pragma unroll(cfg::kTileN > 32 ? 1 : kSteps)
      for (int step = 0; step + kShort <= kSteps; step += kShort) add_short_products<kShort>(step);
      if constexpr (kSteps % kShort > 0) add_short_products<kSteps % kShort>(kSteps / kShort * kShort);
    }
  }
  template <int kSteps>
  TS_DEVICE void add_short_products(int first_step) {
#pragma unroll
    for (int key = 0; key < cfg::kTileN; key += 32) {
      __syncwarp();
      float sums[16] = {};
      add_products<kSteps, 32>(sums, first_step, key);
#pragma unroll
      for (int i = 0; i < 16; ++i) s[key / 2 + i] += sums[i];
    }
  }
  template <int kSteps, int kKeys>
  TS_DEVICE void add_products(float* sums, int first_step, int first_key) {
    const int warp_row = threadIdx.x / 32 * kWarpRows;
    const u32 a_address = shared + (warp_row + lane() % 16) * kPitchQk + lane() / 16 * 16 + 32 * first_step;
    const u32 b_address = shared + kKeyOffset + (first_key + lane() / 16 * 8 + lane() % 8) * kPitchQk +
                          lane() / 8 % 2 * 16 + 32 * first_step;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      Operand<4> a;
      load_matrices(a.head, a_address + 32 * k);
      a.split();
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        Operand<4> b;
        load_matrices(b.head, b_address + n * kPitchQk + 32 * k);
        b.split();
        multiply_add<0>(sums + n / 2, a, b);
        multiply_add<2>(sums + n / 2 + 4, a, b);
      }
    }
  }

  TS_DEVICE void multiply_values() {
    const u32 address = shared + kValueOffset + lane() % 16 * kPitchV + lane() / 16 * 16;
#pragma unroll
    for (int k = 0; k < cfg::kTileN / 16; ++k) {
      const Operand<4> a{{p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]}, {}};
#pragma unroll
      for (int n = 0; n < kOutputColumns; n += 16) {
        Operand<4> b;
        load_matrices_transposed(b.head, address + 16 * k * kPitchV + 2 * n);
        multiply_add<0>(o + n / 2, a, b);
        multiply_add<2>(o + n / 2 + 4, a, b);
      }
    }
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
#pragma unroll
      for (int k = 0; k < kShortSum / 8; ++k) take_probabilities(a[k], s + key / 2 + 4 * k);
#pragma unroll
      for (int n = 0; n < kOutputColumns; n += 16) {
        if constexpr (!cfg::kTf32x3) {
          add_values(o + n / 2, a, key, n);
        } else {
          __syncwarp();  // else the compiler loads values of several groups ahead, and spills
          float sums[8] = {};
          add_values(sums, a, key, n);
#pragma unroll
          for (int i = 0; i < 8; ++i)
            o[n / 2 + i] = key == 0 ? __fmaf_rn(o[n / 2 + i], factor[(i >> 1) & 1], sums[i]) : o[n / 2 + i] + sums[i];
        }
      }
    }
  }
  // The order of keys within a product is free: what a thread holds of the scores, keys 2q and 2q + 1 of eight
  // (q = lane % 4), are elements q and q + 4 of the operand. So is the order of columns: of sixteen, the first mma has
  // the even ones and the second the odd ones, and a thread reads pairs and holds columns 4q .. 4q + 3.
  TS_DEVICE static void take_probabilities(Operand<4>& a, const float* keys) {
    a.head[0] = __float_as_uint(keys[0]);
    a.head[1] = __float_as_uint(keys[2]);
    a.head[2] = __float_as_uint(keys[1]);
    a.head[3] = __float_as_uint(keys[3]);
    a.split();
  }
  TS_DEVICE void add_values(float* sums, const Operand<4> (&a)[kShortSum / 8], int first_key, int first_column) {
    const u32 address =
        shared + kValueOffset + (first_key + (lane() & 3) * 2) * kPitchV + lane() / 4 * 8 + 4 * first_column;
#pragma unroll
    for (int k = 0; k < kShortSum / 8; ++k) {
      Operand<4> b;
      load_pair(b.head[0], b.head[2], address + 8 * k * kPitchV);
      load_pair(b.head[1], b.head[3], address + (8 * k + 1) * kPitchV);
      b.split();
      multiply_add<0>(sums, a[k], b);
      multiply_add<2>(sums + 4, a[k], b);
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

  // Stores one of the thread's rows in the order of add_values, as store_row does.
  TS_DEVICE void store_row_fp32(char* out, int r, float scale, int columns) const {
    if (out == nullptr) return;
    float* const to = reinterpret_cast<float*>(out);
    const bool empty = scale == 0.0f;
#pragma unroll
    for (int i = 0; i < kOutputColumns / 2; i += 8) {
      const int column = 2 * i + 4 * (lane() & 3);
      const float values[4] = {o[i + 2 * r], o[i + 2 * r + 4], o[i + 2 * r + 1], o[i + 2 * r + 5]};
      float results[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) results[e] = empty ? 0.0f : values[e] * scale;
      if constexpr (cfg::kUnaligned) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (column + e < columns) to[column + e] = results[e];
      } else if (column < columns) {
        asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + column), "f"(results[0]), "f"(results[1]),
                     "f"(results[2]), "f"(results[3])
                     : "memory");
      }
    }
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
        store_row_fp32(out, r, factor, columns);
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
      load_rows<kTileM, kPitchQk>(shared, q + kElementBytes * column, kElementBytes * args.q_strides.row, first_row,
                                  length.q, cfg::kHeadDimQk - column);
    };
    const auto load_keys = [&](int first_key, int chunk) {
      const int column = chunk * cfg::kChunkQk;
      load_rows<cfg::kTileN, kPitchQk>(shared + kKeyOffset, k + kElementBytes * column,
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
      load_rows<cfg::kTileN, kPitchV>(shared + kValueOffset, v, kElementBytes * args.v_strides.row, first_key, length.k,
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
      finish_logits(args, args.scale, alibi, GlobalBias{args, length, place, column}, column, s);
      if (cut) mask(first_key);
      float factor[2];
      update_softmax<false, true>(s, rows, factor, unit);
      if constexpr (cfg::kDropout) drop(args, place, first_key, s);
      if constexpr (cfg::kFp32) {
        multiply_values_fp32(factor);
      } else {
        scale_outputs(factor);
        pack_probabilities(s, p);
        multiply_values();
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
