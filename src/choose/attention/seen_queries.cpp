#include "choose/attention/seen_queries.hpp"

#include <algorithm>

#include "choose/padded_rows.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

double bytes_to_fill(const AttentionProblem& p) {
  return static_cast<double>(p.batch * p.heads_q * hidden_queries(p)) * static_cast<double>(p.head_dim_v) *
         bits_of(p.data_type) / 8;
}

}  // namespace

std::int64_t hidden_queries(const AttentionProblem& p) {
  const MaskWindow window = window_of(p);
  if (p.mode != SequenceMode::batch || p.page_size != 0 || p.mask != MaskKind::bottom_right || window.right < 0)
    return 0;
  const std::int64_t last_of_first = p.seqlen_k - p.seqlen_q + window.diagonal + window.right;  // key that query 0 sees
  return std::clamp<std::int64_t>(-last_of_first, 0, p.seqlen_q);
}

bool fills_hidden_queries(const CudaSpec& spec, const AttentionProblem& p) {
  if (p.data_type != DataType::bf16 && p.data_type != DataType::fp16) return false;
  constexpr std::int64_t kElements = 8;  // of 16 bytes, which rows of zeros are made of
  if (p.unaligned || p.head_dim_v % kElements != 0) return false;
  if (p.dropout || p.lse || p.block_scale || p.latent || p.append || p.batch_invariant ||
      p.cache != KvElements::as_queries)
    return false;
  const std::int64_t hidden = hidden_queries(p);
  if (hidden == 0 || hidden == p.seqlen_q || p.batch < 1 || p.heads_q < 1) return false;
  // As many as a launch counts; each factor by itself, so that products are below 2^63.
  if (p.batch > kMostPaddedBytes || p.heads_q > kMostPaddedBytes || hidden > kMostPaddedBytes ||
      p.heads_q * hidden > kMostPaddedBytes / p.batch)
    return false;
  return bytes_to_fill(p) > spec.reference.launch_us * 1e-6 * spec.reference.bytes_per_second;
}

AttentionProblem with_seen_queries(AttentionProblem p) {
  p.seqlen_q -= hidden_queries(p);
  return p;
}

double fill_seconds(const CudaSpec& spec, const AttentionProblem& p) {
  const CudaReferenceChip& chip = spec.reference;
  return chip.launch_us * 1e-6 + bytes_to_fill(p) / (chip.bytes_per_second * chip.reached_bandwidth);
}

}  // namespace tilesmith
