// What a backward problem and the forward one before it have in common.
#pragma once

namespace tilesmith {

/// A problem with the fields of another one, of the other direction, as far as both have them.
template <class To, class From>
[[nodiscard]] constexpr To with_shared_fields(const From& from) {
  To to;
  to.data_type = from.data_type;
  to.mode = from.mode;
  to.batch = from.batch;
  to.heads_q = from.heads_q;
  to.heads_kv = from.heads_kv;
  to.seqlen_q = from.seqlen_q;
  to.seqlen_k = from.seqlen_k;
  to.head_dim_qk = from.head_dim_qk;
  to.head_dim_v = from.head_dim_v;
  to.mask = from.mask;
  to.window_left = from.window_left;
  to.window_right = from.window_right;
  to.diagonal = from.diagonal;
  to.bias = from.bias;
  to.soft_cap = from.soft_cap;
  to.sink = from.sink;
  to.dropout = from.dropout;
  to.negative_scale = from.negative_scale;
  to.unaligned = from.unaligned;
  to.unaligned_bias = from.unaligned_bias;
  return to;
}

}  // namespace tilesmith
