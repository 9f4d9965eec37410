#include "problem/attention_backward/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/shared_fields.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// A gradient without the input that it belongs to.
Status check_wanted(std::string_view name, bool wanted, bool there, std::string_view what) {
  if (!wanted || there) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is wanted of a problem without {}", name, what),
              fmt::format("a problem with {}", what));
}

}  // namespace

AttentionProblem forward_of(const AttentionBackwardProblem& p) {
  auto forward = with_shared_fields<AttentionProblem>(p);
  forward.lse = true;
  return forward;
}

Status validate(const AttentionBackwardProblem& p) {
  constexpr std::array kTypes{DataType::fp32, DataType::tf32, DataType::fp16, DataType::bf16};
  if (std::ranges::find(kTypes, p.data_type) == kTypes.end())
    return fail(ErrorCode::unsupported, fmt::format("attention backward does not run on {}", name_of(p.data_type)),
                "fp32, tf32, fp16 or bf16");
  TS_TRY(validate(forward_of(p)));
  TS_TRY(check_wanted("dbias", p.dbias, p.bias == BiasKind::elementwise, "an elementwise bias"));
  TS_TRY(check_wanted("dalibi", p.dalibi, p.bias == BiasKind::alibi, "ALiBi slopes"));
  return check_wanted("dsink", p.dsink, p.sink, "sink logits");
}

AttentionBackwardArguments dense_arguments(const AttentionBackwardProblem& p, AttentionLayout layout,
                                           std::int64_t total_q, std::int64_t total_k) {
  AttentionBackwardArguments out;
  out.forward = dense_arguments(forward_of(p), layout, total_q, total_k);
  out.dout_strides = out.forward.o_strides;
  out.dlse_strides = out.forward.lse_strides;
  out.dq_strides = out.forward.q_strides;
  out.dk_strides = out.forward.k_strides;
  out.dv_strides = out.forward.v_strides;
  out.dbias_strides = out.forward.bias_strides;
  return out;
}

AttentionSignature signature_of(const AttentionBackwardProblem& p) {
  AttentionProblem forward = forward_of(p);
  forward.lse = false;
  AttentionSignature s = signature_of(forward);
  s.family = AttentionFamily::bwd_dq_dk_dv;
  s.dbias = p.dbias;
  return s;
}

double flops_of(const AttentionBackwardProblem& p) {
  return 2.0 * static_cast<double>(3 * p.head_dim_qk + 2 * p.head_dim_v) * visible_pairs(forward_of(p));
}

double bytes_of(const AttentionBackwardProblem& p) {
  const double rows_q = static_cast<double>(p.heads_q * p.seqlen_q);
  const double rows_k = static_cast<double>(p.heads_kv * p.seqlen_k);
  const double dims = 2 * static_cast<double>(p.head_dim_qk + p.head_dim_v);
  return static_cast<double>(p.batch) * dims * (rows_q + rows_k) * static_cast<double>(input_bytes(p.data_type));
}

Status validate(const AttentionBackwardProblem& p, const AttentionBackwardArguments& a, DeviceKind device) {
  const AttentionProblem forward = forward_of(p);
  TS_TRY(validate(forward, a.forward, device));
  const bool group = p.mode == SequenceMode::group;
  std::int64_t rows_q = p.seqlen_q, rows_k = p.seqlen_k;
  if (group && is_gpu(device)) {
    rows_q = a.forward.total_q;
    rows_k = a.forward.total_k;
  } else if (group) {
    rows_q = a.forward.cu_seqlens_q[p.batch];
    rows_k = a.forward.cu_seqlens_k[p.batch];
  }
  const bool some_queries = p.batch > 0 && p.seqlen_q > 0 && rows_q > 0;
  const bool some_keys = p.batch > 0 && p.seqlen_k > 0 && rows_k > 0;
  TS_TRY(check_pointer("dout", a.dout, some_queries, "the gradient of the output"));
  TS_TRY(check_pointer("dlse", a.dlse, some_queries && p.dlse, "the problem has a gradient of the log-sum-exp"));
  TS_TRY(check_pointer("dq", a.dq, some_queries, "a tensor for the gradient of q"));
  TS_TRY(check_pointer("dk", a.dk, some_keys, "a tensor for the gradient of k"));
  TS_TRY(check_pointer("dv", a.dv, some_keys, "a tensor for the gradient of v"));
  TS_TRY(check_pointer("dbias", a.dbias, p.dbias && p.batch > 0 && p.seqlen_q > 0 && p.seqlen_k > 0,
                       "the problem asks for it"));
  TS_TRY(check_pointer("dalibi", a.dalibi, p.batch > 0 && p.dalibi, "the problem asks for it"));
  TS_TRY(check_pointer("dsink", a.dsink, p.dsink, "the problem asks for it"));

  const std::int64_t batches = group ? 1 : p.batch;
  struct Tensor {
    const char* name;
    const AttentionStrides& strides;
    std::int64_t heads, rows, columns;
    bool written;
  };
  const Tensor tensors[] = {{"dout", a.dout_strides, p.heads_q, rows_q, p.head_dim_v, false},
                            {"dlse", a.dlse_strides, p.heads_q, p.dlse ? rows_q : 0, 1, false},
                            {"dq", a.dq_strides, p.heads_q, rows_q, p.head_dim_qk, true},
                            {"dk", a.dk_strides, p.heads_kv, rows_k, p.head_dim_qk, true},
                            {"dv", a.dv_strides, p.heads_kv, rows_k, p.head_dim_v, true}};
  for (const Tensor& t : tensors) {
    if (t.rows == 0) continue;
    TS_TRY(check_strides(
        t.name, {{batches, t.strides.batch}, {t.heads, t.strides.head}, {t.rows, t.strides.row}, {t.columns, 1}}, 4));
    if (t.written)
      TS_TRY(check_apart(
          t.name, {{{batches, t.strides.batch}, {t.heads, t.strides.head}, {t.rows, t.strides.row}, {t.columns, 1}}}));
  }
  if (p.dbias) {
    const BiasStrides& s = a.dbias_strides;
    TS_TRY(check_strides("dbias",
                         {{p.batch, s.batch}, {p.heads_q, s.head}, {p.seqlen_q, s.row}, {p.seqlen_k, s.column}}, 4));
    const auto own = [](std::int64_t size, std::int64_t stride) {  // a dimension that is summed has one member
      return SizeAndStride{stride == 0 ? 1 : size, stride};
    };
    TS_TRY(check_apart(
        "dbias", {own(p.batch, s.batch), own(p.heads_q, s.head), own(p.seqlen_q, s.row), own(p.seqlen_k, s.column)}));
  }
  if (p.dalibi && a.dalibi_batch_stride != 0 && a.dalibi_batch_stride < p.heads_q)
    return fail(ErrorCode::invalid_argument, fmt::format("dalibi_batch_stride is {}", a.dalibi_batch_stride),
                fmt::format("0, or heads_q {} or more", p.heads_q));
  return {};
}

TsAttentionGradients kernel_gradients(const AttentionBackwardProblem& p, const AttentionBackwardArguments& a) {
  const auto strides = [](const AttentionStrides& s) { return TsStrides{s.batch, s.head, s.row, 1}; };
  // The stride of a dimension's only member says nothing, and 0 means a sum.
  const auto step = [](std::int64_t size, std::int64_t stride) { return size > 1 ? stride : 0; };
  const BiasStrides& b = a.dbias_strides;
  return {.dout = a.dout,
          .dlse = p.dlse ? a.dlse : nullptr,
          .dq = a.dq,
          .dk = a.dk,
          .dv = a.dv,
          .dbias = p.dbias ? a.dbias : nullptr,
          .dalibi = p.dalibi ? a.dalibi : nullptr,
          .dsink = p.dsink ? a.dsink : nullptr,
          .dout_strides = strides(a.dout_strides),
          .dlse_strides = strides(a.dlse_strides),
          .dq_strides = strides(a.dq_strides),
          .dk_strides = strides(a.dk_strides),
          .dv_strides = strides(a.dv_strides),
          .dbias_strides = {step(p.batch, b.batch), step(p.heads_q, b.head), step(p.seqlen_q, b.row),
                            step(p.seqlen_k, b.column)},
          .dalibi_batch_stride = step(p.batch, a.dalibi_batch_stride)};
}

TsAttentionBackwardArgs cpu_arguments(const AttentionBackwardProblem& p, const AttentionBackwardArguments& a,
                                      void* workspace) {
  TsAttentionBackwardArgs out{};
  static_cast<TsAttentionArgs&>(out) = cpu_arguments(forward_of(p), a.forward, 1, workspace);
  out.grad = kernel_gradients(p, a);
  return out;
}

}  // namespace tilesmith
