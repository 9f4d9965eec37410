// What a CPU attention-backward kernel is called with. The meaning is that of contract/attention_backward.h.
#pragma once

#include "../../contract/attention_backward.h"
#include "../attention/abi.h"

// Flash kernels: into how many tasks the keys of a key head are split. The host predicts with it. It depends on the
// call alone and not on the threads, because every split has its own sums of dq, and their number is part of the
// result's bits. Enough for 32 threads; at most 4, because of the sums' memory; of 512 keys or more, because of the
// pass over them.
static inline long long ts_attention_backward_splits(long long batch, long long heads_kv, long long seqlen_k) {
  const long long heads = batch * heads_kv > 1 ? batch * heads_kv : 1;
  const long long wanted = (32 + heads - 1) / heads, most = seqlen_k / 512 < 4 ? seqlen_k / 512 : 4;
  const long long splits = wanted < most ? wanted : most;
  return splits > 1 ? splits : 1;
}

// Into how many parts the query heads of a key head are dealt, when splits alone do not make 16 tasks. Every part has
// its own sums of dk and dv.
static inline long long ts_attention_backward_parts(long long batch, long long heads_q, long long heads_kv,
                                                    long long seqlen_k) {
  const long long tasks = batch * heads_kv * ts_attention_backward_splits(batch, heads_kv, seqlen_k);
  if (tasks <= 0) return 1;
  const long long wanted = (16 + tasks - 1) / tasks, group = heads_q / heads_kv;
  return wanted < group ? wanted : group;
}

struct TsAttentionBackwardArgs : TsAttentionArgs {
  TsAttentionGradients grad;
};
