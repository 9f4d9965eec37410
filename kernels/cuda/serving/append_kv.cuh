// New keys and values written into a cache, and queries and keys turned by their positions on the way: sm_80 and
// newer; for a cache of e4m3 sm_89.
//
// Configuration, in namespace ts::cfg before this file is included: kFp32, kBf16 (bool), the elements of k, v and q;
// kCacheFp8, kCacheInt8 (bool), those of the cache, where neither they are the same.
//
// Launch: kAppendThreads threads; a warp has a head's row of a token: queries, then keys, then values. Grid:
// ceil(tokens * (heads_q + 2 * heads_kv) / (kAppendThreads / 32)). On sm_90 and newer it may start while the preceding
// kernel of the stream ends. A lane reads all it overwrites before it writes; so q_out may be q.
//
// Lengths, offsets, slots, positions and page numbers are the device's, and nobody has checked them: what would go
// beside the cache, or has no row in the rotary table, is written nowhere.
#pragma once

#include "../common/launch.cuh"
#include "abi.h"
#include "elements.cuh"

namespace ts {

constexpr int kAppendThreads = 256;
constexpr bool kQuantized = cfg::kCacheFp8 || cfg::kCacheInt8;
constexpr int kCacheBytes = kQuantized ? 1 : kElementBytes;

TS_DEVICE u32 to_int8(float x) {
  int value;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(value) : "f"(x));
  return static_cast<u32>(value) & 0xff;
}

// Stored values times `unit` to the cache.
template <int kCount>
TS_DEVICE void store_in_cache(float (&values)[kCount], float unit, char* to) {
  if constexpr (!kQuantized) {
    store_elements(values, to);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = values[i] / unit;
    u32 bits;
    if constexpr (kCount == 1) {
      bits = cfg::kCacheFp8 ? pack_e4m3(values[0], 0.0f, 0.0f, 0.0f) : to_int8(values[0]);
      *reinterpret_cast<unsigned char*>(to) = static_cast<unsigned char>(bits);
    } else {
      static_assert(kCount == 4, "groups of four");
      if constexpr (cfg::kCacheFp8)
        bits = pack_e4m3(values[0], values[1], values[2], values[3]);
      else
        bits = to_int8(values[0]) | to_int8(values[1]) << 8 | to_int8(values[2]) << 16 | to_int8(values[3]) << 24;
      *reinterpret_cast<u32*>(to) = bits;
    }
  }
}

template <bool kToCache, int kCount>
TS_DEVICE void store(float (&values)[kCount], float unit, char* to) {
  if constexpr (kToCache)
    store_in_cache(values, unit, to);
  else
    store_elements(values, to);
}

struct RowCopy {
  const char* from;
  char* to;
  i64 dim, rotary_dim;
  const float *cos, *sin;  // of the row's position
  float unit;              // of a cache of 8 bits
};

// A row, its first elements turned. Lanes take groups of kCount pairs, then groups of kCount elements.
template <bool kToCache, int kCount>
TS_DEVICE void copy_row(const RowCopy& row, bool interleaved) {
  constexpr int kTo = kToCache ? kCacheBytes : kElementBytes;
  const i64 half = row.rotary_dim / 2, lane = threadIdx.x & 31;
  for (i64 first = lane * kCount; first < half; first += 32 * kCount) {
    // Pair i is a[i] and b[i]; interleaved pairs are neighbours: all of a, then all of b.
    float a[kCount], b[kCount];
    const i64 low = interleaved ? 2 * first : first, high = interleaved ? 2 * first + kCount : half + first;
    load_elements(row.from + low * kElementBytes, a);
    load_elements(row.from + high * kElementBytes, b);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int in_order = 2 * i;  // of the first of pair i, when interleaved
      float& x = !interleaved ? a[i] : in_order < kCount ? a[in_order % kCount] : b[in_order % kCount];
      float& y = !interleaved ? b[i] : in_order + 1 < kCount ? a[(in_order + 1) % kCount] : b[(in_order + 1) % kCount];
      const float cosine = row.cos[first + i], sine = row.sin[first + i], old = x;
      x = old * cosine - y * sine;
      y = y * cosine + old * sine;
    }
    store<kToCache>(a, row.unit, row.to + low * kTo);
    store<kToCache>(b, row.unit, row.to + high * kTo);
  }
  for (i64 first = row.rotary_dim + lane * kCount; first < row.dim; first += 32 * kCount) {
    float x[kCount];
    load_elements(row.from + first * kElementBytes, x);
    store<kToCache>(x, row.unit, row.to + first * kTo);
  }
}

template <int kCount>
TS_DEVICE void append(const TsCudaAppendArgs& args) {
  const i64 rows = args.heads_q + 2 * args.heads_kv;
  const i64 warp = static_cast<i64>(blockIdx.x) * (kAppendThreads / 32) + threadIdx.x / 32;
  const i64 token = warp / rows;
  if (token >= args.tokens) return;
  i64 head = warp % rows, b, t;
  if (args.cu_seqlens != nullptr) {
    if (token >= args.cu_seqlens[args.batch]) return;
    i64 after = args.batch;  // sequences before `after` begin at or before the token, the last of them has it
    for (b = 0; after - b > 1;) {
      const i64 middle = (b + after) / 2;
      (args.cu_seqlens[middle] <= token ? b : after) = middle;
    }
    t = token - args.cu_seqlens[b];
  } else {
    b = token / args.seqlen;
    t = token % args.seqlen;
  }
  const i64 in_batch = args.cu_seqlens != nullptr ? 0 : b, in_row = args.cu_seqlens != nullptr ? token : t;
  const i64 key = args.pages.lengths == nullptr ? t : args.pages.lengths[b] + t;
  const i64 position = args.positions != nullptr ? args.positions[token] : key;
  RowCopy row{};
  row.unit = 1.0f;
  const bool is_query = head < args.heads_q, is_key = !is_query && head < args.heads_q + args.heads_kv;
  if ((is_query || is_key) && args.rotary_dim > 0) {
    if (position < 0 || position >= args.rotary_positions) return;
    row.rotary_dim = args.rotary_dim;
    row.cos = args.rotary_cos + position * args.rotary_row_stride;
    row.sin = args.rotary_sin + position * args.rotary_row_stride;
  }
  const auto at = [](auto* tensor, const TsStrides& s, i64 batch, i64 head, i64 row, int bytes) {
    return tensor + (batch * s.batch + head * s.head + row * s.row) * bytes;
  };
  if (is_query) {
    row.dim = args.head_dim_qk;
    row.from = at(static_cast<const char*>(args.q), args.q_strides, in_batch, head, in_row, kElementBytes);
    row.to = at(static_cast<char*>(args.q_out), args.q_out_strides, in_batch, head, in_row, kElementBytes);
    copy_row<false, kCount>(row, args.interleaved);
    return;
  }
  head -= args.heads_q + (is_key ? 0 : args.heads_kv);
  i64 page = b, page_row = key;
  if (args.slots != nullptr) {
    const i64 slot = args.slots[token];
    if (slot < 0) return;
    page = slot / args.pages.page_size;
    page_row = slot % args.pages.page_size;
  } else if (key < 0) {
    return;
  } else if (args.pages.numbers != nullptr) {
    const i64 of_sequence = key / args.pages.page_size;
    const bool list = args.pages.offsets != nullptr;
    const i64 begin = list ? args.pages.offsets[b] : b * args.pages.stride;
    if (begin < 0 || (!list && of_sequence >= args.pages.stride)) return;
    page = args.pages.numbers[begin + of_sequence];
    page_row = key % args.pages.page_size;
  }
  if (page < 0 || page >= args.num_pages || page_row >= args.pages.page_size) return;
  row.dim = is_key ? args.head_dim_qk : args.head_dim_v;
  row.from = is_key ? at(static_cast<const char*>(args.k), args.k_strides, in_batch, head, in_row, kElementBytes)
                    : at(static_cast<const char*>(args.v), args.v_strides, in_batch, head, in_row, kElementBytes);
  row.to = is_key ? at(static_cast<char*>(args.k_cache), args.k_cache_strides, page, head, page_row, kCacheBytes)
                  : at(static_cast<char*>(args.v_cache), args.v_cache_strides, page, head, page_row, kCacheBytes);
  if constexpr (kQuantized) {
    const TsScale& scale = is_key ? args.k_scale : args.v_scale;
    if (scale.data != nullptr) row.unit = scale.data[b * scale.batch + head * scale.head];
  }
  copy_row<true, kCount>(row, args.interleaved);
}

}  // namespace ts

extern "C" __global__ void __launch_bounds__(ts::kAppendThreads)
    TS_ENTRY(const __grid_constant__ TsCudaAppendArgs args) {
  ts::let_next_kernel_start();
  ts::wait_for_previous_kernel();
  if (args.aligned)
    ts::append<4>(args);
  else
    ts::append<1>(args);
}
