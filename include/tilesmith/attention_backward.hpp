// Attention backward: the gradients of a loss by the inputs of attention, from the gradient of its output.
//
// With the names of attention.hpp, do the gradient of o, dlse that of lse (0 where it is not given), and
//   x_ij = scale * dot(q_i, k_j);  u_ij = soft_cap * tanh(x_ij / soft_cap), or x_ij;  t_ij = u_ij + bias - alibi
//   p_ij = exp(t_ij - lse_i), and 0 where j is hidden from i;  r = 1 / (1 - drop);  m_ij = 1 where (i, j) is kept, or 0
//   delta_i = dot(do_i, o_i) - dlse_i
//   g_ij = r * m_ij * dot(do_i, v_j);  dt_ij = p_ij * (g_ij - delta_i);  dx_ij = dt_ij * (1 - (u_ij / soft_cap)^2)
// the results are
//   dq_i = scale * sum over j of dx_ij k_j       dk_j = scale * sum over i and the group's heads of dx_ij q_i
//   dv_j = r * sum over i and the group's heads of m_ij p_ij do_i
//   dbias = dt summed over the dimensions that it broadcasts
//   dalibi[b][h] = -sum over i and j of dt_ij |i + o - j|       dsink[h] = -sum over b and i of exp(sink - lse_i)
//   delta_i
// o and lse are those that attention forward wrote for the same inputs and numbers: o is read as it is stored. A row
// whose lse is -inf saw nothing and changes nothing. Nor does one whose lse is beyond +-2^23, where float32 has no
// fraction: p cannot be told from it. Every element of a wanted result is written: with zeros where no pair reaches it.
#pragma once

#include <cstdint>

#include "tilesmith/attention.hpp"
#include "tilesmith/error.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Everything a plan depends on. The fields that AttentionProblem has too mean the same.
struct AttentionBackwardProblem {
  /// Of q, k, v, o, do and of dq, dk, dv: fp32, tf32, fp16 or bf16. Sums are fp32. The other tensors are fp32.
  DataType data_type = DataType::bf16;
  SequenceMode mode = SequenceMode::batch;
  std::int64_t batch = 1;
  std::int64_t heads_q = 1;
  std::int64_t heads_kv = 1;
  std::int64_t seqlen_q = 1;  ///< group mode: the longest of the batch
  std::int64_t seqlen_k = 1;  ///< group mode: the longest of the batch
  std::int64_t head_dim_qk = 128;
  std::int64_t head_dim_v = 128;
  MaskKind mask = MaskKind::none;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  std::int64_t diagonal = 0;
  BiasKind bias = BiasKind::none;
  bool soft_cap = false;
  bool sink = false;
  bool dropout = false;
  bool dlse = false;            ///< the call has a gradient of the log-sum-exp
  bool dbias = false;           ///< the gradient of the elementwise bias is wanted
  bool dalibi = false;          ///< the gradient of the ALiBi slopes is wanted
  bool dsink = false;           ///< the gradient of the sink logits is wanted
  bool negative_scale = false;  ///< the call's scale is below 0; the CPU does not ask
  // What a CUDA kernel may expect of the memory; the CPU does not ask.
  bool unaligned = false;       ///< a pointer or row of q, k, v, o, do, dq, dk or dv is no multiple of 16 bytes
  bool unaligned_bias = false;  ///< the same holds for the bias, or its columns are not contiguous

  friend bool operator==(const AttentionBackwardProblem&, const AttentionBackwardProblem&) = default;

  /// Calls visit(name, field) for every field in order, as AttentionProblem's.
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("data_type", self.data_type);
    visit("mode", self.mode);
    visit("batch", self.batch);
    visit("heads_q", self.heads_q);
    visit("heads_kv", self.heads_kv);
    visit("seqlen_q", self.seqlen_q);
    visit("seqlen_k", self.seqlen_k);
    visit("head_dim_qk", self.head_dim_qk);
    visit("head_dim_v", self.head_dim_v);
    visit("mask", self.mask);
    visit("window_left", self.window_left);
    visit("window_right", self.window_right);
    visit("diagonal", self.diagonal);
    visit("bias", self.bias);
    visit("soft_cap", self.soft_cap);
    visit("sink", self.sink);
    visit("dropout", self.dropout);
    visit("dlse", self.dlse);
    visit("dbias", self.dbias);
    visit("dalibi", self.dalibi);
    visit("dsink", self.dsink);
    visit("negative_scale", self.negative_scale);
    visit("unaligned", self.unaligned);
    visit("unaligned_bias", self.unaligned_bias);
  }
};

/// What is wrong with the problem, or success. The message has the offending figures, the hint what would be right.
[[nodiscard]] TILESMITH_API Status validate(const AttentionBackwardProblem& problem);

/// The problem of attention forward whose o and lse the backward reads.
[[nodiscard]] TILESMITH_API AttentionProblem forward_of(const AttentionBackwardProblem& problem);

/// On a CUDA device every pointer is to memory the device can read.
struct AttentionBackwardArguments {
  /// The call of attention forward: its inputs, numbers and strides, and the o and lse that it wrote, which are read.
  AttentionArguments forward;
  const void* dout = nullptr;   ///< the gradient of o: of o's sizes
  const float* dlse = nullptr;  ///< of lse's sizes; read when the problem has dlse
  void* dq = nullptr;           ///< of q's sizes, and so on
  void* dk = nullptr;
  void* dv = nullptr;
  float* dbias = nullptr;
  float* dalibi = nullptr;  ///< one number per query head, or per (batch, query head) with dalibi_batch_stride
  float* dsink = nullptr;
  AttentionStrides dout_strides, dlse_strides, dq_strides, dk_strides, dv_strides;
  /// Of dbias seen as (batch, heads_q, seqlen_q, seqlen_k). 0 sums over the dimension: it is that of every dimension
  /// that the bias broadcasts. Group mode: by sequence; what lies beyond a sequence's lengths is written with zeros.
  BiasStrides dbias_strides;
  std::int64_t dalibi_batch_stride = 0;
};

/// Strides of dense tensors in this layout, and the usual scale: those of the problem's forward, each gradient laid out
/// as its tensor.
[[nodiscard]] TILESMITH_API AttentionBackwardArguments dense_arguments(const AttentionBackwardProblem& problem,
                                                                       AttentionLayout layout, std::int64_t total_q = 0,
                                                                       std::int64_t total_k = 0);

}  // namespace tilesmith
