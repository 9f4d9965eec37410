#include "codegen/attention/hip_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "instances/attention/gpu_signature.hpp"
#include "verify/attention/reference.hpp"

namespace tilesmith::testing {
namespace {

TsStrides abi_strides(const TensorStrides& s) {
  return {s.batch, s.head, s.row, s.column};
}

}  // namespace

AttentionSignature hip_attention_signature(const AttentionTensors& t, bool lse, bool unaligned) {
  AttentionSignature s;
  s.data_type = t.q.type == ElementType::bf16 ? DataType::bf16 : DataType::fp16;
  s.mode = t.group_mode() ? SequenceMode::group : SequenceMode::batch;
  s.head_dim_qk = static_cast<std::uint16_t>(t.head_dim_qk);
  s.head_dim_v = static_cast<std::uint16_t>(t.head_dim_v);
  s.mask = t.window_left >= 0 ? MaskKind::generic : t.window_right >= 0 ? MaskKind::causal : MaskKind::none;
  s.bias = t.bias != nullptr ? BiasKind::elementwise : t.alibi != nullptr ? BiasKind::alibi : BiasKind::none;
  s.lse = lse;
  s.dropout = t.drop_threshold > 0;
  s.soft_cap = t.soft_cap != 0;
  s.sink = t.sink != nullptr;
  s.negative_scale = t.scale < 0;
  s.unaligned = unaligned;
  return gpu_attention_signature(s);
}

HipAttentionProblem::HipAttentionProblem(const KernelConfig& config, const HipAttentionResources& facts,
                                         const RandomAttention& problem)
    : signature_(config.attention()), tensors_(problem.tensors) {
  const AttentionTensors& t = tensors_;
  const std::size_t size = size_of(t.q.type);
  members_ = t.group_mode() ? 1 : t.batch;
  rows_q_ = t.group_mode() ? t.cu_seqlens_q[t.batch] : t.seqlen_q;
  rows_k_ = t.group_mode() ? t.cu_seqlens_k[t.batch] : t.seqlen_k;
  // Exactly what the strides reach.
  const auto guarded = [&](std::string_view name, const TensorView& view, std::int64_t heads, std::int64_t rows,
                           std::int64_t columns) {
    const std::size_t bytes = extent(view.strides, heads, rows, columns) * size;
    auto copy = std::make_unique<GuardedBytes>(bytes, signature_.unaligned ? 2 : 16);
    std::copy_n(static_cast<const std::byte*>(view.data), bytes, copy->data());
    buffers_.push_back({name, copy->data(), bytes, false});
    return copy;
  };
  q_ = guarded("q", t.q, t.heads_q, rows_q_, t.head_dim_qk);
  k_ = guarded("k", t.k, t.heads_kv, rows_k_, t.head_dim_qk);
  v_ = guarded("v", t.v, t.heads_kv, rows_k_, t.head_dim_v);
  // The output has gaps between its rows, which must keep their bytes.
  pitch_ = t.head_dim_v + (signature_.unaligned ? 3 : 8);
  const auto o_bytes = static_cast<std::size_t>(members_ * t.heads_q * rows_q_ * pitch_) * size;
  const auto lse_bytes = static_cast<std::size_t>(members_ * t.heads_q * rows_q_) * 4;
  o_ = std::make_unique<GuardedBytes>(o_bytes, 16);
  lse_ = std::make_unique<GuardedBytes>(lse_bytes, 4);
  out_ = {o_->data(), t.q.type, {t.heads_q * rows_q_ * pitch_, pitch_, t.heads_q * pitch_, 1}};
  lses_ = {lse_->data(), ElementType::fp32, {t.heads_q * rows_q_, rows_q_, 1, 1}};
  buffers_.push_back({"o", o_->data(), o_bytes, true});
  buffers_.push_back({"lse", lse_->data(), lse_bytes, true});
  const auto vector = [&](std::string_view name, const auto& values) {
    if (!values.empty()) buffers_.push_back({name, values.data(), values.size() * sizeof(values[0]), false});
  };
  vector("bias", problem.bias);
  vector("alibi", problem.alibi);
  vector("sink", problem.sink);
  vector("cu_seqlens_q", problem.cu_seqlens_q);
  vector("cu_seqlens_k", problem.cu_seqlens_k);

  TsHipAttentionArgs& a = args_;
  a.q = q_->data();
  a.k = k_->data();
  a.v = v_->data();
  a.o = o_->data();
  a.lse = signature_.lse ? reinterpret_cast<float*>(lse_->data()) : nullptr;
  a.bias = t.bias;
  a.alibi = t.alibi;
  a.sink = t.sink;
  a.cu_seqlens_q = t.cu_seqlens_q;
  a.cu_seqlens_k = t.cu_seqlens_k;
  a.q_strides = abi_strides(t.q.strides);
  a.k_strides = abi_strides(t.k.strides);
  a.v_strides = abi_strides(t.v.strides);
  a.o_strides = abi_strides(out_.strides);
  a.bias_strides = abi_strides(t.bias_strides);
  a.lse_strides = abi_strides(lses_.strides);
  a.alibi_batch_stride = t.alibi_batch_stride;
  a.batch = t.batch;
  a.heads_q = t.heads_q;
  a.heads_kv = t.heads_kv;
  a.seqlen_q = t.seqlen_q;
  a.seqlen_k = t.seqlen_k;
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  a.window_left = t.window_left < 0 ? kFar : t.window_left;
  a.window_right = t.window_right < 0 ? kFar : t.window_right;
  a.seed = t.seed;
  a.offset = t.offset;
  a.scale = t.scale;
  a.soft_cap = t.soft_cap;
  a.mask_bottom_right = t.mask_bottom_right;
  a.drop_threshold = t.drop_threshold;
  a.group = static_cast<int>(t.heads_q / t.heads_kv);
  a.row_tiles = static_cast<int>((t.seqlen_q + facts.tile_rows - 1) / facts.tile_rows);
  a.pieces = 1;
}

std::size_t HipAttentionProblem::extent(const TensorStrides& s, std::int64_t heads, std::int64_t rows,
                                        std::int64_t columns) const {
  if (rows == 0) return 0;
  return static_cast<std::size_t>((members_ - 1) * s.batch + (heads - 1) * s.head + (rows - 1) * s.row + columns);
}

int HipAttentionProblem::blocks() const {
  return static_cast<int>(tensors_.batch * tensors_.heads_q * args_.row_tiles);
}

std::vector<HipAttentionProblem::Buffer> HipAttentionProblem::buffers() const {
  return buffers_;
}

std::string HipAttentionProblem::fault() const {
  const auto reference = AttentionReference::make(tensors_, tensors_.q.type, 1);
  if (!reference) return reference.error().text();
  std::vector<float> lses;
  if (signature_.lse) lses = read_output(tensors_, lses_, 1);
  const Verdict verdict = reference->judge(read_output(tensors_, out_, tensors_.head_dim_v), lses);
  if (verdict.outcome == Outcome::fail) return verdict.reason;
  const std::size_t size = size_of(tensors_.q.type);
  for (std::int64_t row = 0; row < members_ * tensors_.heads_q * rows_q_; ++row)
    for (std::int64_t gap = tensors_.head_dim_v; gap < pitch_; ++gap)
      for (std::size_t byte = 0; byte < size; ++byte)
        if (o_->data()[static_cast<std::size_t>(row * pitch_ + gap) * size + byte] != std::byte{0xff})
          return fmt::format("written behind row {}", row);
  return {};
}

void HipAttentionProblem::clear() {
  for (const Buffer& buffer : buffers_)
    if (buffer.written) std::memset(const_cast<void*>(buffer.data), 0xff, buffer.bytes);
}

}  // namespace tilesmith::testing
