// What a CUDA attention-forward kernel is called with. The meaning is that of contract/attention.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg (the tile configuration and the traits)
// followed by one include: "hopper/attention_fwd.cuh" or "mma_sm80/attention_fwd.cuh". It defines one entry, extern "C"
// __global__, named by the macro TS_ENTRY (ts_attention_fwd when it is not defined). How the entry is launched
// (threads, shared memory, grid, tensor maps) stands at the top of those two files. The kernels are freestanding and
// compile with NVRTC.
#pragma once

#include "../../contract/attention.h"
#include "../../contract/paged_keys.h"
#include "../../contract/scale.h"
#include "../common/tensor_map.h"

// Passed by value as a __grid_constant__ parameter. The head dimension of q, k, v and o is contiguous (column == 1).
struct TsCudaAttentionArgs : TsAttentionCall {
  // Two 32-bit counters of the dynamic scheduler, zero before the first launch; every launch leaves them zero. One pair
  // per stream: two kernels that run at the same time must not share it. Unused by kernels with a static schedule.
  unsigned int* tile_counters;
  // Persistent kernels only: work items of the call, row tiles per head (of the longest sequence), heads of a section,
  // which are walked together, and sections before the last one, which has the heads that are left.
  int work_items, row_tiles, section_heads, sections;
  // Of tensors: row tiles of each head in front of these, whose queries see no key. Their zeros are written by free warps
  // (hopper/hidden_rows.cuh); 0 where a kernel has none.
  int first_tile;
  // fp8 kernels only; k and v by the head of keys and values.
  TsScale q_scale, k_scale, v_scale;
  // Kernels for pages only.
  TsPagedKeys paged;
  int num_pages;  // of the cache: numbers of others are not followed
  // key / page_size is (mulhi(key, page_multiplier) + key) >> page_shift for keys below 2^31.
  unsigned int page_multiplier;
  int page_shift;
  // Rows of a box of the maps of keys and values, a power of two or a whole tile's; 0: the copy engine does not take them,
  // and they are copied row by row.
  int map_rows;
};

// The tensor maps of a Hopper kernel, by value as a __grid_constant__ parameter.
struct TsCudaTensorMaps {
  TsCudaTensorMap q, k, v;
  TsCudaTensorMap q_rest, k_rest, v_rest;  // where boxes end with their rows: what whole columns of 128 bytes leave of one
  TsCudaTensorMap bias;  // only with the bias trait through shared memory
};
