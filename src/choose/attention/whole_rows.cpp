#include "choose/attention/whole_rows.hpp"

#include "choose/attention/gpu_signature.hpp"
#include "choose/rounding.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

std::int64_t bytes_to_copy(const AttentionRows& rows) {
  std::int64_t uneven = 0;
  for (const HeadRows& one : {rows.q, rows.k, rows.v, rows.o})
    if (one.row_bytes != one.whole_bytes()) uneven += one.copied().bytes();
  return uneven > 0 ? uneven : rows.bytes();
}

/// Two launches, which read and write so many tensors of each kind.
double seconds_of_copies(const CudaSpec& spec, const AttentionProblem& p, double tensors) {
  constexpr int kLaunches = 2;
  const double bytes = tensors * static_cast<double>(bytes_to_copy(rows_of(p)));
  const CudaReferenceChip& chip = spec.reference;
  const CudaRowCopies copies =
      spec.row_copies.value_or(CudaRowCopies{spec.gemm.pad_us, chip.bytes_per_second * chip.reached_bandwidth});
  return kLaunches * 1e-6 * copies.launch_us + 2 * bytes / copies.bytes_per_second;
}

std::int64_t whole_head_dim(std::int64_t head_dim, DataType type) {
  const std::int64_t unit = 128 / bits_of(type);
  return ceil_div(head_dim, unit) * unit;
}

template <class Problem>
Problem whole_rows_of(Problem p) {
  p.head_dim_qk = whole_head_dim(p.head_dim_qk, p.data_type);
  p.head_dim_v = whole_head_dim(p.head_dim_v, p.data_type);
  p.unaligned = false;
  return p;
}

}  // namespace

std::int64_t AttentionRows::bytes() const {
  return q.copied().bytes() + k.copied().bytes() + v.copied().bytes() + o.copied().bytes();
}

AttentionRows rows_of(const AttentionProblem& p) {
  const auto of = [&](std::int64_t heads, std::int64_t rows, std::int64_t head_dim) {
    return HeadRows{p.batch, heads, rows, head_dim * bits_of(p.data_type) / 8};
  };
  return {.q = of(p.heads_q, p.seqlen_q, p.head_dim_qk),
          .k = of(p.heads_kv, p.seqlen_k, p.head_dim_qk),
          .v = of(p.heads_kv, p.seqlen_k, p.head_dim_v),
          .o = of(p.heads_q, p.seqlen_q, p.head_dim_v)};
}

bool may_copy_rows(const AttentionProblem& p) {
  if (!gpu_signature_of(p).unaligned) return false;
  if (p.data_type != DataType::bf16 && p.data_type != DataType::fp16) return false;
  if (p.mode != SequenceMode::batch || p.page_size != 0 || p.append || p.latent || p.batch_invariant ||
      p.cache != KvElements::as_queries)
    return false;
  if (p.batch < 1 || p.seqlen_q < 1 || p.seqlen_k < 1) return false;
  // Each tensor by itself: products of what passes are below 2^63.
  const AttentionRows rows = rows_of(p);
  for (const HeadRows& one : {rows.q, rows.k, rows.v, rows.o})
    if (one.whole_bytes() > kMostPaddedBytes || one.rows > kMostPaddedBytes || one.heads > kMostPaddedBytes ||
        one.batch > kMostPaddedBytes || one.rows * one.heads > kMostPaddedBytes / one.batch)
      return false;
  return rows.bytes() <= kMostPaddedBytes;
}

bool may_copy_rows(const AttentionBackwardProblem& p) {
  return may_copy_rows(forward_of(p));
}

AttentionProblem with_whole_rows(AttentionProblem p) {
  return whole_rows_of(p);
}

AttentionBackwardProblem with_whole_rows(AttentionBackwardProblem p) {
  return whole_rows_of(p);
}

bool is_worth_copies(const KernelConfig& config) {
  return config.algorithm.pipeline == Pipeline::warp_specialized || config.algorithm.pipeline == Pipeline::flash;
}

bool copies_rows(const KernelConfig& config, const AttentionProblem& p) {
  return !config.attention().unaligned && is_worth_copies(config) && may_copy_rows(p);
}

bool copies_rows(const KernelConfig& config, const AttentionBackwardProblem& p) {
  return copies_rows(config, forward_of(p));
}

double copy_seconds(const CudaSpec& spec, const AttentionProblem& p) {
  return seconds_of_copies(spec, p, 1);
}

double copy_seconds(const CudaSpec& spec, const AttentionBackwardProblem& p) {
  return seconds_of_copies(spec, forward_of(p), 2);  // each tensor and its gradient
}

}  // namespace tilesmith
