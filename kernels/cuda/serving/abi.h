// What CUDA's serving kernels are called with. The meaning is that of tilesmith/serving.hpp; every pointer is the
// device's. The structures are passed by value.
#pragma once

#include "../../contract/attention.h"
#include "../../contract/paged_keys.h"
#include "../attention/abi.h"

// Tensors of parts whose places the host lists one by one. More parts lie equally far apart.
#define TS_CUDA_LISTED_STATES 64

struct TsCudaMergeArgs {
  const void* outputs[TS_CUDA_LISTED_STATES];
  const float* lses[TS_CUDA_LISTED_STATES];
  // Where the parts are not listed: from one part to the next, in elements.
  long long output_step, lse_step;
  int listed;
  int aligned;  // rows of o and of the outputs are whole groups of 16 bytes, at multiples of 16 bytes
  void* o;
  float* lse;  // null: not wanted
  TsStrides output_strides, input_lse_strides, o_strides, lse_strides;
  long long states, batch, heads, seqlen, head_dim;
};

struct TsCudaAppendArgs {
  const void *q, *k, *v;
  void *q_out, *k_cache, *v_cache;
  TsStrides q_strides, k_strides, v_strides, q_out_strides, k_cache_strides, v_cache_strides;
  const int* cu_seqlens;  // null: every sequence has `seqlen` new tokens
  TsPagedKeys pages;      // lengths may be null
  const long long *slots, *positions;
  const float *rotary_cos, *rotary_sin;
  TsScale k_scale, v_scale;  // of a cache of 8 bits: a sequence's, a head's, or with page_scale a page's, a row's
  float *k_row_scale, *v_row_scale;  // written; null: not wanted
  TsStrides k_row_scale_strides, v_row_scale_strides;
  long long rotary_dim, rotary_positions, rotary_row_stride;
  long long tokens;  // rows of q, k and v, of all sequences: in group mode a bound
  long long batch, seqlen, heads_q, heads_kv, head_dim_qk, head_dim_v, num_pages;
  int interleaved, page_scale, vectorized_pages;
  int lengths_after;  // pages.lengths count the new tokens too
  int aligned;  // groups of four elements are, in all tensors, at multiples of their size
};
