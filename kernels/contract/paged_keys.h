// Keys and values in a cache of pages, for kernels of every backend.
//
// k is (pages, heads_kv, page_size, head_dim_qk) and v (pages, heads_kv, page_size, head_dim_v), in any order the
// strides describe; their batch strides lead from page to page. Sequence b has lengths[b] keys. Its key j is row
// j % page_size of page n[j / page_size], where n begins at numbers + b * stride, or at numbers + offsets[b] when
// there are offsets. Without numbers it is row j of page b: a dense cache.
//
// Vectorized, a head's share of a page is contiguous: of k (head_dim_qk / x, page_size, x), of v (page_size / x,
// head_dim_v, x), where x elements have 16 bytes. Row strides mean nothing then.
//
// A kernel reads no entry and no page beyond ceil(lengths[b] / page_size), none that lies wholly before the keys that
// the sequence's first query sees, and no row of a page beyond the length: all of these may hold anything.
#pragma once

struct TsPagedKeys {
  const int* lengths;
  const int* numbers;
  const int* offsets;
  long long stride;
  long long page_size;  // 0: k and v are not paged
  int vectorized;
};
