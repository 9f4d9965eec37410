// What a CPU attention-forward kernel is called with. The meaning is that of contract/attention.h.
#pragma once

#include "../../contract/attention.h"
#include "../../contract/paged_keys.h"

// What the stored values of an fp8 tensor are multiplied by: data[b * batch + h * head + i / 128 * block]. Null
// data: 1.
struct TsAttentionScale {
  const float* data;
  long long batch, head, block;
};

struct TsAttentionArgs : TsAttentionCall {
  void* workspace;     // workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages
  long long splits;    // parts into which kernels that split the keys cut them; 1 or more
  long long diagonal;  // what the window is moved by: i + o + diagonal takes the place of i + o in its bounds
  // What generic kernels alone ask for; others were made for these. Their soft_cap is 0 where there is none.
  long long head_dim_qk, head_dim_v;
  TsAttentionScale q_scale, k_scale, v_scale;  // k and v by the head of keys and values
  TsPagedKeys paged;                           // read by generic kernels, and by those that were made for pages
};
