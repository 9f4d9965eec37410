/* The contract between Tilesmith and a compiled CUDA attention-forward kernel.
 *
 * The host includes this header; a generated source includes it too, so both sides agree by construction. It is plain C
 * with fixed-width types and includes nothing: the kernels are freestanding and compile with NVRTC.
 *
 * A generated source is a table of constexpr values in namespace ts::cfg (the tile configuration and the traits)
 * followed by one include: "hopper/attention_fwd.cuh" or "portable/attention_fwd.cuh". It defines one entry, extern "C"
 * __global__, named by the macro TS_ENTRY (ts_attention_fwd when it is not defined). The launch facts (threads, shared memory, grid, tensor maps) stand at the top of those
 * two files.
 *
 * Every field means what the field of the same name means in kernels/cpu/abi.h; the order of operations on a logit
 * (scale, soft cap, bias, alibi, mask), the sink, the lse and the dropout stream are those of the CPU contract, word
 * for word. A null lse, bias, alibi or sink (and a drop_threshold of 0) means that the call does not ask for what the
 * kernel has the trait for.
 */
#ifndef TILESMITH_KERNELS_CUDA_ABI_H
#define TILESMITH_KERNELS_CUDA_ABI_H

/* Strides of a rank-4 tensor, in elements. The head dimension of q, k, v and o is contiguous (column == 1). */
typedef struct TsCudaStrides {
  long long batch;
  long long head;
  long long row;
  long long column;
} TsCudaStrides;

/* What the stored values of an fp8 tensor are multiplied by: data[b * batch + h * head + i * block], strides in
 * elements, 0 where the scale is shared. `block` counts TS_CUDA_SCALE_BLOCK rows of the sequence, from its beginning,
 * and is read by kernels with block scales alone. Null data: a scale of 1. Scales are positive, finite and normal. */
#define TS_CUDA_SCALE_BLOCK 128
typedef struct TsCudaScale {
  const float* data;
  long long batch, head, block;
} TsCudaScale;

/* Passed by value as a __grid_constant__ parameter. */
typedef struct TsCudaAttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;
  const float* bias;
  const float* alibi;
  const float* sink;
  const int* cu_seqlens_q;
  const int* cu_seqlens_k;
  /* Two 32-bit counters of the dynamic scheduler, zero before the first launch; every launch leaves them zero. One pair
   * per stream: two kernels that run at the same time must not share it. Unused by kernels with a static schedule. */
  unsigned int* tile_counters;
  TsCudaStrides q_strides, k_strides, v_strides, o_strides, bias_strides, lse_strides;
  long long alibi_batch_stride;
  long long batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  long long window_left, window_right;
  unsigned long long seed, offset;
  float scale, soft_cap;
  int mask_bottom_right;
  unsigned int drop_threshold;
  /* Persistent kernels only: work items of the call, row tiles per head (of the longest sequence) and heads that are
   * walked together. */
  int work_items, row_tiles, section_heads;
  /* fp8 kernels only; k and v by the head of keys and values. */
  TsCudaScale q_scale, k_scale, v_scale;
} TsCudaAttentionArgs;

/* An encoded tensor map (CUtensorMap of the driver): 128 bytes, 64-byte aligned. */
typedef struct
#ifdef __cplusplus
    alignas(64)
#endif
        TsCudaTensorMap {
  unsigned long long opaque[16];
} TsCudaTensorMap;

/* The tensor maps of a Hopper kernel, by value as a __grid_constant__ parameter. */
typedef struct TsCudaTensorMaps {
  TsCudaTensorMap q, k, v;
  TsCudaTensorMap bias; /* only with the bias trait through shared memory */
} TsCudaTensorMaps;

#endif
