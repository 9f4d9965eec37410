// What an attention-forward call means, for kernels of every backend. The host includes this file, and the code
// generator copies its text into every generated source, so both sides agree by construction. It includes nothing and
// needs no library: a CPU kernel's compile time is mostly headers, and CUDA kernels are freestanding.
//
// Dimension names: batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim_qk, head_dim_v. heads_q is a multiple of
// heads_kv; query head h reads key head h / (heads_q / heads_kv).
//
// Batch mode: q is (batch, heads_q, seqlen_q, head_dim_qk), k (batch, heads_kv, seqlen_k, head_dim_qk), v (batch,
// heads_kv, seqlen_k, head_dim_v), o (batch, heads_q, seqlen_q, head_dim_v), in any order the strides describe. Group
// mode: cu_seqlens_q and cu_seqlens_k hold batch + 1 increasing offsets; sequence b of q is rows cu_seqlens_q[b] ..
// cu_seqlens_q[b+1] of a tensor whose batch stride is ignored; seqlen_q and seqlen_k are the maxima over the batch.
//
// clang-format off
// With i the query row and j the key column of a sequence, and o = seqlen_k - seqlen_q of that sequence when
// mask_bottom_right, else 0:
//
//   s    = scale * dot(q_i, k_j)
//   s    = soft_cap * tanh(s / soft_cap)       with the soft_cap trait
//   s   += bias[b][h][i][j]                    with the elementwise bias trait (float32, any stride may be 0)
//   s   += -alibi[b][h] * |i + o - j|          with the alibi trait
//   j is visible to i when (window_left < 0 or j >= i + o - window_left)
//                      and (window_right < 0 or j <= i + o + window_right)
//   (a backend's call may move the window's diagonal: then i + o + d takes the place of i + o in the two lines above)
//   p    = exp(s - max) over the visible j; a sink logit sink[h] joins the sum and no output
//   lse  = ln(sum) + max, natural logarithm; -inf when the row sees nothing and has no sink
//   o_i  = sum over j of keep(i, j) / (1 - drop) * p_ij * v_j / sum; a row that sees nothing is zero
// clang-format on
//
// A null lse, bias, alibi or sink, and a drop_threshold of 0, mean that the call does not ask for what the kernel has
// the trait for.
//
// Dropout: Philox 4x32-10 with key (seed low, seed high xor offset high) and counter (j / 8, i, b * heads_q + h, offset
// low). Its four words are eight 16-bit values, low half first. Value j % 8 belongs to (i, j), which is kept when the
// value is at least drop_threshold; drop = drop_threshold / 65536. The rule mentions no tile, so every kernel on every
// device makes the same mask. The lse is that of the row before dropout.
#pragma once

// Strides of a rank-4 tensor, in elements. `column` belongs to the head dimension, or to the key position of a bias.
struct TsStrides {
  long long batch;
  long long head;
  long long row;
  long long column;  // 1 for q, k, v and o; 0 or more for a bias (0 broadcasts)
};

// The arguments that kernels of every backend read alike. A backend's own arguments derive from it.
struct TsAttentionCall {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;         // (batch, heads_q, seqlen_q) by lse_strides; group mode: (heads_q, total_q), batch stride ignored
  const float* bias;  // [b][h][i][j] by bias_strides, in batch mode and group mode alike
  const float* alibi;  // [b][h] by alibi_batch_stride (0: shared by the batch)
  const float* sink;   // [heads_q]
  const int* cu_seqlens_q;
  const int* cu_seqlens_k;
  TsStrides q_strides, k_strides, v_strides, o_strides, bias_strides, lse_strides;
  long long alibi_batch_stride;
  long long batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  long long window_left, window_right;
  unsigned long long seed, offset;
  float scale, soft_cap;
  int mask_bottom_right;
  unsigned int drop_threshold;  // 0 .. 65535
};
