#include "choose/attention_backward/cuda_single_block.hpp"

#include "instances/attention_backward/cuda_resources.hpp"
#include "kernels/cuda/attention/backward/abi.h"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"

namespace tilesmith {
namespace {

/// The first query sees the fewest keys behind a bound on the right, the last one behind a bound on the left.
bool every_query_sees_a_key(const AttentionBackwardProblem& p) {
  const MaskWindow window = window_of(forward_of(p));
  const std::int64_t diagonal = (window.bottom_right ? p.seqlen_k - p.seqlen_q : 0) + window.diagonal;
  return (window.right < 0 || diagonal + window.right >= 0) &&
         (window.left < 0 || p.seqlen_q - 1 + diagonal - window.left < p.seqlen_k);
}

}  // namespace

bool products_store_dq(const AttentionBackwardProblem& p, const KernelConfig& products) {
  const bool adds = cuda_backward_resources(products).sum_columns > 0;
  return adds && p.mode == SequenceMode::batch && p.seqlen_k >= 1 && p.seqlen_k <= TS_CUDA_BACKWARD_ROWS &&
         every_query_sees_a_key(p);
}

}  // namespace tilesmith
