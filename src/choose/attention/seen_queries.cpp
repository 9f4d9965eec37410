#include "choose/attention/seen_queries.hpp"

#include <algorithm>

#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

std::int64_t hidden_queries(const AttentionProblem& p) {
  const MaskWindow window = window_of(p);
  if (p.mode != SequenceMode::batch || p.page_size != 0 || !window.bottom_right || window.right < 0) return 0;
  const std::int64_t last_of_first = p.seqlen_k - p.seqlen_q + window.diagonal + window.right;  // key that query 0 sees
  return std::clamp<std::int64_t>(-last_of_first, 0, p.seqlen_q);
}

bool has_hidden_tiles(const AttentionProblem& p) {
  constexpr std::int64_t kLeastTile = 64;
  const bool in_tensors = !p.latent && !p.append && p.cache == KvElements::as_queries;
  // Where bits may not depend on neighbours the choice of a kernel follows from a usual sequence.
  if (!in_tensors || p.batch_invariant || bits_of(input_type(p.data_type)) != 16) return false;
  const std::int64_t hidden = hidden_queries(p);
  return hidden >= kLeastTile && hidden < p.seqlen_q;
}

AttentionProblem with_seen_queries(AttentionProblem p) {
  p.seqlen_q -= hidden_queries(p);
  return p;
}

double hidden_seconds(const CudaSpec& spec, const AttentionProblem& p) {
  const CudaReferenceChip& chip = spec.reference;
  const double bytes = static_cast<double>(p.batch * p.heads_q * hidden_queries(p)) *
                       static_cast<double>(p.head_dim_v) * bits_of(p.data_type) / 8;
  return bytes / (chip.bytes_per_second * chip.reached_bandwidth);
}

}  // namespace tilesmith
