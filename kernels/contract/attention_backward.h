// What an attention-backward call means, for kernels of every backend: the gradients by the inputs of the call that
// contract/attention.h describes. A backend's arguments derive from TsAttentionCall, whose o and lse are what attention
// forward wrote and are read here, and hold a TsAttentionGradients.
//
// clang-format off
// With the names of contract/attention.h, s of it before the bias being u, and after bias and alibi t:
//
//   p_ij    = exp(t_ij - lse_i), natural; 0 where j is hidden from i (a choice, never a product: t may be anything there)
//   r       = 65536 / (65536 - drop_threshold);  m_ij = 1 where keep(i, j), else 0
//   delta_i = dot(do_i, o_i) - dlse_i          o as it is stored
//   g_ij    = r * m_ij * dot(do_i, v_j)
//   dt_ij   = p_ij * (g_ij - delta_i)
//   dx_ij   = dt_ij * (1 - (u_ij / soft_cap)^2)   with the soft_cap trait, else dt_ij
//
//   dq_i    = scale * sum over j of dx_ij k_j
//   dk_j    = scale * sum over the group's heads and i of dx_ij q_i
//   dv_j    = r * sum over the group's heads and i of m_ij p_ij do_i
//   dbias[b][h][i][j] = dt_ij, summed over every dimension whose stride is 0
//   dalibi[b][h] = -sum over i, j of dt_ij |i + o - j|, summed over b when dalibi_batch_stride is 0
//   dsink[h]     = -sum over b, i of exp(sink[h] - lse_i) delta_i
// clang-format on
//
// A row that sees nothing has lse -inf and o 0 (with a sink lse is finite, and p is 0 all the same): it adds nothing
// anywhere; kernels take +inf for its lse, so that p is 0 without a test. So is a row whose lse is lost (TS_LSE_LOST):
// its logits alone are that large, as where every key has a bias of -1e9, and exp(t - lse) would be anything up to
// infinity. lse includes the sink: it is not added again. q, k, v, do and o beyond a sequence's end belong to its
// neighbour or to nobody: 0 * NaN is NaN, so they are not read, or are replaced by zeros.
//
// Every element of dq, dk, dv and of the wanted sums is written, also where no pair reaches it: with 0. So the caller
// clears nothing, and a kernel that adds with atomics clears first. In group mode rows of dq, dk and dv are those of
// q, k and v, and dbias is indexed by sequence over the whole (seqlen_q, seqlen_k), zeros beyond a sequence's lengths.
// No result's strides are 0, save those of dbias. Sums are fp32; a result is rounded once.
//
// Null dbias, dalibi, dsink: not wanted. Null dlse: 0.
//
// Intermediates belong to the workspace that a plan lays out, and the kernels of one recipe agree about them alone:
// usually delta and lse in base 2 (fp32, rows padded for whole copies), and dq in fp32 where blocks of keys add to it.
#pragma once

#include "attention.h"

// From 2^23 on float32 has no fraction, so an lse has lost the sum's logarithm (infinities too; not a NaN, which stays
// one).
#define TS_LSE_LOST(lse) ((lse) >= 8388608.0f || (lse) <= -8388608.0f)

struct TsAttentionGradients {
  const void* dout;   // do, of o's sizes and type
  const float* dlse;  // of lse's sizes
  void* dq;           // of q's sizes and type, and so on
  void* dk;
  void* dv;
  float* dbias;   // [b][h][i][j]
  float* dalibi;  // [b][h]
  float* dsink;   // [h]
  TsStrides dout_strides, dlse_strides, dq_strides, dk_strides, dv_strides, dbias_strides;
  long long dalibi_batch_stride;
};
