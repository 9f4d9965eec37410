// What a CPU attention-forward kernel is called with. The meaning is that of contract/attention.h.
#pragma once

#include "../../contract/attention.h"
#include "../../contract/paged_keys.h"
#include "../../contract/scale.h"

// Elements of k and v, as generic kernels ask for them.
enum TsCacheElement { TS_CACHE_AS_QUERIES, TS_CACHE_FP8, TS_CACHE_INT8 };

struct TsAttentionArgs : TsAttentionCall {
  void* workspace;     // workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages
  long long splits;    // parts into which kernels that split the keys cut them; 1 or more
  long long diagonal;  // what the window is moved by: i + o + diagonal takes the place of i + o in its bounds
  // What generic kernels alone ask for; others were made for these. Their soft_cap is 0 where there is none.
  long long head_dim_qk, head_dim_v;
  int cache;                          // TsCacheElement
  int page_scale;                     // k_scale and v_scale are those of pages
  TsScale q_scale, k_scale, v_scale;  // k and v by the head of keys and values; also read of 8-bit caches
  TsPagedKeys paged;                  // read by generic kernels, and by those that were made for pages
};
