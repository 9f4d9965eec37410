// What serving needs beside attention: merging partial results, and writing new keys and values into a cache.
//
// These are calls without a plan: they move memory, and there is nothing to choose. On a CUDA device they are queued on
// a stream and can be captured into a graph; every pointer is the device's then, but for the lists of pointers in
// MergeStates.
#pragma once

#include <cstdint>

#include "tilesmith/attention.hpp"
#include "tilesmith/error.hpp"
#include "tilesmith/rotary.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Attention over several parts of the keys, merged into attention over all of them. With (o_i, L_i) the output and the
/// log-sum-exp of part i, and M the largest L_i:
///   w_i = exp(L_i - M);  o = sum of w_i o_i / sum of w_i;  lse = M + ln(sum of w_i)
/// in the order of the parts, with fp32 sums. A part whose L_i is -inf saw nothing: its o_i is not read, and it changes
/// no bit. Where all of them are, o is 0 and lse -inf. A sink belongs to one of the parts.
struct MergeStates {
  DataType data_type = DataType::bf16;  ///< of the outputs: fp32, fp16 or bf16
  std::int64_t states = 0;
  std::int64_t batch = 1, heads = 1, seqlen = 1, head_dim = 128;
  /// (batch, heads, seqlen, head_dim) each, all with output_strides. On a CUDA device at most 64, or any number that
  /// lie equally far apart.
  const void* const* outputs = nullptr;
  const float* const* lses = nullptr;  ///< (batch, heads, seqlen) each, natural logarithms
  AttentionStrides output_strides, input_lse_strides;
  void* o = nullptr;     ///< may be one of the outputs, in its place
  float* lse = nullptr;  ///< none of the lses; null: not wanted
  AttentionStrides o_strides, lse_strides;
};

/// Errors: invalid_argument, unsupported.
[[nodiscard]] TILESMITH_API Status validate(const MergeStates& call);

/// New keys and values written into a cache, and queries and keys turned on the way. Arithmetic is fp32, rounded once.
/// New token t of sequence b goes to row lengths[b] + t of the sequence, as AttentionPages places it, with lengths from
/// before the call; or to row slots[token] % page_size of page slots[token] / page_size, nowhere when it is negative.
/// Its position, and that of query t, is lengths[b] + t, or positions[token]. `token` counts the rows of q, k and v:
/// b * seqlen + t, or in group mode cu_seqlens[b] + t.
/// A cache of 8 bits holds a value divided by its scale: the nearest e4m3 or integer, the largest or smallest where
/// that lies beyond. With row scales the call chooses the scale and writes it: the largest magnitude of the row over
/// the type's largest (448, 127), neither subnormal nor infinite; 1 of a row of zeros. On a CUDA device nobody checks
/// the numbers in its memory: what has no row in the rotary table or no place in the cache is written nowhere; a
/// table's rows end at its stride, and a list must reach far enough.
struct AppendKv {
  DataType data_type = DataType::bf16;  ///< of q, k and v: fp32, fp16 or bf16
  KvElements cache = KvElements::as_queries;
  SequenceMode mode = SequenceMode::batch;
  std::int64_t batch = 1, heads_kv = 1, head_dim_qk = 128, head_dim_v = 128;
  std::int64_t seqlen = 1;     ///< new tokens of a sequence; group mode: of the longest
  std::int64_t total = 0;      ///< group mode: rows of q, k and v; the CPU reads it off cu_seqlens where it is 0
  std::int64_t page_size = 1;  ///< rows of a page; of a dense cache: of a sequence
  std::int64_t heads_q = 0;    ///< queries to turn; 0: none
  const void* k = nullptr;     ///< (batch, heads_kv, seqlen, head_dim_qk); group mode (heads_kv, total, head_dim_qk)
  const void* v = nullptr;
  const void* q = nullptr;
  void* q_out = nullptr;  ///< may be q
  void* k_cache = nullptr;
  void* v_cache = nullptr;
  AttentionStrides k_strides, v_strides, q_strides, q_out_strides;
  AttentionStrides k_cache_strides, v_cache_strides;  ///< their batch leads from page to page
  /// Pages are Composable Kernel's, as AttentionPages has them: row strides are not read, and page_size and head_dim_qk
  /// are multiples of the elements of 16 bytes.
  bool vectorized_pages = false;
  const std::int32_t* cu_seqlens = nullptr;  ///< group mode: batch + 1 offsets
  AttentionPages pages;                      ///< lengths: may be null with slots and positions
  /// pages.lengths count the call's tokens too, so that token t of n goes to row lengths[b] - n + t. A sequence of
  /// length 0 is padding then: its tokens go nowhere.
  bool lengths_after = false;
  const std::int64_t* slots = nullptr;
  const std::int64_t* positions = nullptr;
  Rotary rotary;
  bool page_scale = false;          ///< k_scale and v_scale belong to pages or their rows, as of attention
  AttentionScale k_scale, v_scale;  ///< of a cache of 8 bits; without page_scale by tensor or head, their `block` is 0
  /// Scales of a cache's rows, which are written: of row r of page p and head h at p * batch + h * head + r * row. In
  /// place of a scale that is read; attention reads them with page_scale, and r as its block.
  float *k_row_scale = nullptr, *v_row_scale = nullptr;
  AttentionStrides k_row_scale_strides, v_row_scale_strides;
};

/// Of a call on the CPU: reads slots, positions, lengths, scales and page numbers too. Errors: invalid_argument,
/// unsupported.
[[nodiscard]] TILESMITH_API Status validate(const AppendKv& call);

}  // namespace tilesmith
