#include "problem/attention/append.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "problem/serving/problem.hpp"

namespace tilesmith {
namespace {

Status check_chosen_scale(const AttentionProblem& p, const char* name, bool chosen, const AttentionScale& scale) {
  if (!chosen || (p.page_scale && scale.data != nullptr && (scale.block != 0 || p.page_size == 1))) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is to be chosen for new rows, and {}", name,
                          !p.page_scale           ? "the problem has no page_scale"
                          : scale.data == nullptr ? "there is no memory for it"
                                                  : "the rows of a page share one"),
              "page scales with a number for each row");
}

/// They follow from the lengths, but for padding.
Status check_lengths_before(const AttentionProblem& p, const AttentionArguments& a) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t length = a.pages.lengths[b], before = a.append.lengths_before[b];
    const bool group = p.mode == SequenceMode::group;
    const std::int64_t count = group ? std::int64_t{a.cu_seqlens_q[b + 1]} - a.cu_seqlens_q[b] : p.seqlen_q;
    if (length != 0 && before + count != length)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("append.lengths_before[{}] is {}, and the sequence has {} keys, {} new ones included", b,
                              before, length, count),
                  fmt::format("{}", length - count));
  }
  return {};
}

/// The row scales that a call writes are those that attention reads.
void choose_scale(AttentionScale& scale, float*& row_scale, AttentionStrides& strides) {
  row_scale = const_cast<float*>(scale.data);
  strides = {scale.batch, scale.head, scale.block};
  scale = {};
}

}  // namespace

AttentionProblem attended(const AttentionProblem& problem) {
  AttentionProblem out = problem;
  out.append = false;
  return out;
}

AttentionArguments attended(const AttentionProblem& problem, const AttentionArguments& arguments) {
  AttentionArguments out = arguments;
  if (problem.append && arguments.append.rotary.dim > 0) {
    out.q = arguments.append.q_out;
    out.q_strides = arguments.append.q_out_strides;
  }
  return out;
}

AppendKv append_of(const AttentionProblem& p, const AttentionArguments& a, DeviceKind device) {
  const AttentionAppend& given = a.append;
  AppendKv out;
  out.data_type = p.data_type == DataType::tf32 ? DataType::fp32 : p.data_type;
  out.cache = p.cache;
  out.mode = p.mode;
  out.batch = p.batch;
  out.heads_kv = p.heads_kv;
  out.head_dim_qk = p.head_dim_qk;
  out.head_dim_v = p.head_dim_v;
  out.seqlen = p.seqlen_q;
  out.total = a.total_q;
  out.page_size = p.page_size;
  out.k = given.k;
  out.v = given.v;
  out.k_strides = given.k_strides;
  out.v_strides = given.v_strides;
  out.k_cache = const_cast<void*>(a.k);
  out.v_cache = const_cast<void*>(a.v);
  out.k_cache_strides = a.k_strides;
  out.v_cache_strides = a.v_strides;
  out.vectorized_pages = p.vectorized_pages;
  out.cu_seqlens = a.cu_seqlens_q;
  out.pages = a.pages;
  out.slots = given.slots;
  out.positions = given.positions;
  out.rotary = given.rotary;
  if (given.rotary.dim > 0) {
    out.heads_q = p.heads_q;
    out.q = a.q;
    out.q_strides = a.q_strides;
    out.q_out = given.q_out;
    out.q_out_strides = given.q_out_strides;
  }
  if (given.slots != nullptr && (given.rotary.dim == 0 || given.positions != nullptr))
    out.pages.lengths = nullptr;  // nothing follows from them
  else if (given.lengths_before != nullptr && is_gpu(device))
    out.pages.lengths = given.lengths_before;
  else
    out.lengths_after = true;
  if (p.cache == KvElements::as_queries) return out;
  out.page_scale = p.page_scale;
  out.k_scale = a.k_scale;
  out.v_scale = a.v_scale;
  if (given.chooses_k_scale) choose_scale(out.k_scale, out.k_row_scale, out.k_row_scale_strides);
  if (given.chooses_v_scale) choose_scale(out.v_scale, out.v_row_scale, out.v_row_scale_strides);
  return out;
}

Status check_append(const AttentionProblem& p, const AttentionArguments& a, DeviceKind device) {
  TS_TRY(check_chosen_scale(p, "k_scale", a.append.chooses_k_scale, a.k_scale));
  TS_TRY(check_chosen_scale(p, "v_scale", a.append.chooses_v_scale, a.v_scale));
  if (a.append.lengths_before != nullptr && !is_gpu(device)) TS_TRY(check_lengths_before(p, a));
  return validate(append_of(p, a, device), device);
}

}  // namespace tilesmith
