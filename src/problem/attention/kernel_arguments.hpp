// The part of a call that kernels of every backend read alike (kernels/contract/attention.h).
#pragma once

#include <concepts>

#include "kernels/contract/attention.h"
#include "problem/attention/problem.hpp"

namespace tilesmith {

/// A backend's arguments with the shared fields filled in and the others zero. Unbounded sides of the window stay -1.
template <std::derived_from<TsAttentionCall> Args>
[[nodiscard]] Args shared_kernel_args(const AttentionProblem& p, const AttentionArguments& a) {
  Args out{};
  const auto strides = [](const AttentionStrides& s) { return TsStrides{s.batch, s.head, s.row, 1}; };
  const MaskWindow window = window_of(p);
  out.q = a.q;
  out.k = a.k;
  out.v = a.v;
  out.o = a.o;
  // A kernel may carry traits the problem does not use; null tells it so.
  out.lse = p.lse ? a.lse : nullptr;
  out.bias = p.bias == BiasKind::elementwise ? a.bias : nullptr;
  out.alibi = p.bias == BiasKind::alibi ? a.alibi : nullptr;
  out.sink = p.sink ? a.sink : nullptr;
  out.cu_seqlens_q = a.cu_seqlens_q;
  out.cu_seqlens_k = a.cu_seqlens_k;
  out.q_strides = strides(a.q_strides);
  out.k_strides = strides(a.k_strides);
  out.v_strides = strides(a.v_strides);
  out.o_strides = strides(a.o_strides);
  out.lse_strides = strides(a.lse_strides);
  out.bias_strides = {a.bias_strides.batch, a.bias_strides.head, a.bias_strides.row, a.bias_strides.column};
  out.alibi_batch_stride = a.alibi_batch_stride;
  out.batch = p.batch;
  out.heads_q = p.heads_q;
  out.heads_kv = p.heads_kv;
  out.seqlen_q = p.seqlen_q;
  out.seqlen_k = p.seqlen_k;
  out.window_left = window.left;
  out.window_right = window.right;
  out.mask_bottom_right = window.bottom_right;
  out.seed = a.seed;
  out.offset = a.offset;
  out.scale = a.scale;
  out.soft_cap = a.soft_cap;
  out.drop_threshold = p.dropout ? drop_threshold(a) : 0;
  return out;
}

}  // namespace tilesmith
