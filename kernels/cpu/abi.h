/* The contract between Tilesmith and a compiled CPU kernel.
 *
 * The host includes this header; the code generator copies its text into every generated source, so both sides agree by
 * construction. It is plain C with fixed-width types and includes nothing, because a kernel's compile time is mostly
 * headers.
 *
 * A kernel is one table of function pointers under one exported symbol. It runs as one to three stages; a stage is a
 * number of independent tasks, and all tasks of a stage end before the next stage begins. Whoever runs the kernel hands
 * the tasks to threads in increasing order (a kernel numbers its longest tasks first). A kernel allocates nothing,
 * keeps no state and starts no thread.
 */
#ifndef TILESMITH_KERNELS_CPU_ABI_H
#define TILESMITH_KERNELS_CPU_ABI_H

#ifdef __cplusplus
extern "C" {
#endif

#define TS_CPU_ABI_VERSION 1
#define TS_CPU_MAX_STAGES 3

/* Strides of a rank-4 tensor, in elements; the head dimension (or the key position, for a bias) has stride `column`. */
typedef struct TsStrides {
  long long batch;
  long long head;
  long long row;
  long long column; /* 1 for q, k, v and o; 0 or more for a bias (0 broadcasts) */
} TsStrides;

/* One attention-forward call. Dimension names: batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim_qk, head_dim_v.
 *
 * Batch mode: q is (batch, heads_q, seqlen_q, head_dim_qk), k (batch, heads_kv, seqlen_k, head_dim_qk), v (batch,
 * heads_kv, seqlen_k, head_dim_v), o (batch, heads_q, seqlen_q, head_dim_v), in any order the strides describe. Group
 * mode: cu_seqlens_q and cu_seqlens_k hold batch + 1 increasing offsets; sequence b of q is rows cu_seqlens_q[b] ..
 * cu_seqlens_q[b+1] of a tensor whose stride.batch is ignored; seqlen_q and seqlen_k are the maxima over the batch.
 *
 * With i the query row and j the key column of a sequence, o = seqlen_k - seqlen_q of that sequence when
 * mask_bottom_right, else 0: s  = scale * dot(q_i, k_j) s  = soft_cap * tanh(s / soft_cap)                       when
 * the kernel has the soft_cap trait s += bias[b][h][i][j]                                  when it has the elementwise
 * bias trait (float32, any stride may be 0) s += -alibi[b][h] * |i + o - j|                        when it has the
 * alibi trait visible: (window_left < 0 or j >= i + o - window_left) and (window_right < 0 or j <= i + o +
 * window_right) p  = exp(s - max) over visible j; a sink logit sink[h] joins the sum and no output lse = ln(sum) + max,
 * natural logarithm; -inf when the row sees nothing and has no sink output row = sum_j keep(i,j) / (1 - drop) * p_ij
 * v_j / sum; a row that sees nothing is zero
 *
 * A null lse, bias or sink (and a drop_threshold of 0) means that the call does not ask for what the kernel has the
 * trait for.
 *
 * Dropout: Philox 4x32-10 with key (seed low, seed high xor offset high) and counter (j / 8, i, b * heads_q + h, offset
 * low). Its four words are eight 16-bit values, low half first; value j % 8 belongs to (i, j), which is kept when value
 * >= drop_threshold. drop = drop_threshold / 65536. The rule mentions no tile, so every kernel on every device makes
 * the same mask. The lse is that of the undropped row. */
typedef struct TsAttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse; /* (batch, heads_q, seqlen_q) by lse_strides; group mode: (heads_q, total_q), batch stride ignored */
  const float* bias;  /* batch mode and group mode alike: [b][h][i][j] by bias_strides */
  const float* alibi; /* [b][h] by alibi_batch_stride (0: shared by the batch) */
  const float* sink;  /* [heads_q] */
  const int* cu_seqlens_q;
  const int* cu_seqlens_k;
  void* workspace; /* workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages */
  TsStrides q_strides, k_strides, v_strides, o_strides, bias_strides, lse_strides;
  long long alibi_batch_stride;
  long long batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  long long window_left, window_right;
  long long splits; /* pieces the keys are cut into by kernels that split them; 1 or more */
  unsigned long long seed, offset;
  float scale, soft_cap;
  int mask_bottom_right;
  unsigned int drop_threshold; /* 0 .. 65535 */
} TsAttentionArgs;

typedef struct TsCpuStage {
  /* How many tasks the stage has for this call. */
  long long (*tasks)(const void* args);
  /* Runs task `index`. `scratch` is scratch_bytes of this thread's own memory, 64-byte aligned, contents undefined. */
  void (*run)(const void* args, long long index, void* scratch);
} TsCpuStage;

typedef struct TsCpuKernel {
  unsigned int abi_version; /* TS_CPU_ABI_VERSION */
  unsigned int stage_count;
  const char* name;          /* the instance's name, for a check at load time */
  unsigned long long key[2]; /* the instance's 128-bit key: high, low */
  long long (*workspace_bytes)(const void* args);
  long long (*scratch_bytes)(const void* args);
  /* Called by every thread before its first task and after its last (tile registers); null when there is nothing to do.
   */
  void (*thread_begin)(void);
  void (*thread_end)(void);
  TsCpuStage stages[TS_CPU_MAX_STAGES];
} TsCpuKernel;

#ifdef __cplusplus
}
#endif
#endif
