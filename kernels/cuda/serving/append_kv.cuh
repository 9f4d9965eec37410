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
#include "turn.cuh"

namespace ts {

constexpr int kAppendThreads = 256;
constexpr bool kQuantized = cfg::kCacheFp8 || cfg::kCacheInt8;
constexpr int kCacheBytes = kQuantized ? 1 : kElementBytes;
constexpr float kLargest = cfg::kCacheInt8 ? 127.0f : 448.0f, kLeastNormal = 0x1p-126f, kMostFinite = 0x1.fffffep127f;
constexpr int kVector = 16 / kCacheBytes;  // elements of vectorized pages' vectors

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

// A row whose first elements are turned, in pieces: each is kCount pairs that are turned, or kCount elements behind them.
// The lanes of a warp take turns at them.
struct Row {
  const char* from;
  i64 dim, rotary_dim;
  bool interleaved;
};
struct Place {
  char* to;
  i64 step = kVector;      // from one vector of the row to the next, in elements
  bool scattered = false;  // neighbours of the row are a vector apart
  const float *cos, *sin;  // of the row's position
  float unit = 1.0f;       // of a cache of 8 bits

  TS_DEVICE i64 at(i64 element) const { return element / kVector * step + element % kVector; }
};
// Pair i is a[i] and b[i]; of interleaved pairs, which are neighbours, a has the first half and b the second. Elements
// that are not turned are a.
template <int kCount>
struct Piece {
  float a[kCount], b[kCount];
};

template <int kCount>
struct Pieces {
  Row row;
  i64 half, turned, count;

  TS_DEVICE explicit Pieces(const Row& row)
      : row(row),
        half(row.rotary_dim / 2),
        turned(half / kCount),
        count(turned + (row.dim - row.rotary_dim) / kCount) {}
  TS_DEVICE i64 first_pair(i64 piece) const { return piece * kCount; }
  TS_DEVICE i64 a_at(i64 piece) const {
    if (piece >= turned) return row.rotary_dim + (piece - turned) * kCount;
    return row.interleaved ? 2 * first_pair(piece) : first_pair(piece);
  }
  TS_DEVICE i64 b_at(i64 piece) const {
    return row.interleaved ? 2 * first_pair(piece) + kCount : half + first_pair(piece);
  }

  TS_DEVICE void load(i64 piece, Piece<kCount>& x) const {
    if (piece >= count) return;
    load_elements(row.from + a_at(piece) * kElementBytes, x.a);
    if (piece < turned) load_elements(row.from + b_at(piece) * kElementBytes, x.b);
  }
  TS_DEVICE void turn(i64 piece, Piece<kCount>& x, const Place& place) const {
    const float *const cos = place.cos + first_pair(piece), *const sin = place.sin + first_pair(piece);
    if (row.interleaved && kCount > 1) {
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        turn_pair(x.a[2 * i], x.a[2 * i + 1], cos[i], sin[i]);
        turn_pair(x.b[2 * i], x.b[2 * i + 1], cos[kCount / 2 + i], sin[kCount / 2 + i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) turn_pair(x.a[i], x.b[i], cos[i], sin[i]);
    }
  }
  template <bool kToCache>
  TS_DEVICE void put(i64 piece, Piece<kCount>& x, const Place& place) const {
    constexpr int kTo = kToCache ? kCacheBytes : kElementBytes;
    if (kToCache && place.scattered) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        float one[1] = {x.a[i]};
        store<kToCache>(one, place.unit, place.to + (a_at(piece) + i) * kVector * kTo);
      }
      return;
    }
    if (piece < turned) {
      turn(piece, x, place);
      store<kToCache>(x.b, place.unit, place.to + place.at(b_at(piece)) * kTo);
    }
    store<kToCache>(x.a, place.unit, place.to + place.at(a_at(piece)) * kTo);
  }
  // The largest magnitude of the row, turned.
  TS_DEVICE float largest(Piece<kCount> x, const Place& place) const {
    float most = 0.0f;
    for (i64 piece = threadIdx.x & 31; piece < count; piece += 32) {
      if (piece < turned) turn(piece, x, place);
#pragma unroll
      for (int i = 0; i < kCount; ++i) most = fmaxf(most, fmaxf(fabsf(x.a[i]), piece < turned ? fabsf(x.b[i]) : 0.0f));
      load(piece + 32, x);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
    return most;
  }
};

// Where a token lies in k, v and q, and where it goes.
struct Token {
  i64 in_batch, in_row;           // of k, v and q
  i64 sequence;
  i64 position = -1;              // -1: it has no row in the rotary table
  i64 page = -1, page_row = 0;    // -1: it goes nowhere
};

// The loads wait for one another. False for a token behind the last sequence, and for padding.
TS_DEVICE bool find_place(const TsCudaAppendArgs& args, i64 token, Token& out) {
  i64 b = out.in_batch, t = out.in_row, count = args.seqlen;
  if (args.cu_seqlens != nullptr) {
    if (token >= args.cu_seqlens[args.batch]) return false;
    i64 after = args.batch;  // sequences before `after` begin at or before the token, the last of them has it
    for (b = 0; after - b > 1;) {
      const i64 middle = (b + after) / 2;
      (args.cu_seqlens[middle] <= token ? b : after) = middle;
    }
    t = token - args.cu_seqlens[b];
    count = args.cu_seqlens[b + 1] - args.cu_seqlens[b];
  }
  out.sequence = b;
  i64 key = t;
  if (args.pages.lengths != nullptr) {
    const i64 length = args.pages.lengths[b];
    if (args.lengths_after && length == 0) return false;
    key += args.lengths_after ? length - count : length;
  }
  out.position = args.positions != nullptr ? args.positions[token] : key;
  if (out.position >= args.rotary_positions) out.position = -1;
  i64 page = b, page_row = key;
  if (args.slots != nullptr) {
    const i64 slot = args.slots[token];
    if (slot < 0) return true;
    page = slot / args.pages.page_size;
    page_row = slot % args.pages.page_size;
  } else if (key < 0) {
    return true;
  } else if (args.pages.numbers != nullptr) {
    const i64 of_sequence = key / args.pages.page_size;
    const bool list = args.pages.offsets != nullptr;
    const i64 begin = list ? args.pages.offsets[b] : b * args.pages.stride;
    if (begin < 0 || (!list && of_sequence >= args.pages.stride)) return true;
    page = args.pages.numbers[begin + of_sequence];
    page_row = key % args.pages.page_size;
  }
  if (page < 0 || page >= args.num_pages || page_row >= args.pages.page_size) return true;
  out.page = page;
  out.page_row = page_row;
  return true;
}

enum class Kind { query, key, value };

// Row `row` of a token: a head of its queries, then of its keys, then of its values.
template <int kCount>
struct TokenRow {
  Kind kind;
  i64 head;
  Pieces<kCount> pieces;

  TS_DEVICE TokenRow(const TsCudaAppendArgs& args, const Token& token, i64 row)
      : kind(row < args.heads_q                   ? Kind::query
             : row < args.heads_q + args.heads_kv ? Kind::key
                                                  : Kind::value),
        head(row - (kind == Kind::query ? 0 : args.heads_q) - (kind == Kind::value ? args.heads_kv : 0)),
        pieces(described(args, token)) {}

  TS_DEVICE Row described(const TsCudaAppendArgs& args, const Token& token) const {
    const bool is_value = kind == Kind::value;
    const char* const tensor =
        static_cast<const char*>(kind == Kind::query ? args.q : is_value ? args.v : args.k);
    const TsStrides& s = kind == Kind::query ? args.q_strides : is_value ? args.v_strides : args.k_strides;
    return {tensor + (token.in_batch * s.batch + head * s.head + token.in_row * s.row) * kElementBytes,
            is_value ? args.head_dim_v : args.head_dim_qk, is_value ? 0 : args.rotary_dim, args.interleaved != 0};
  }

  // Writes the row, whose first piece of this lane is x.
  TS_DEVICE void write(const TsCudaAppendArgs& args, const Token& token, Piece<kCount>& x) const {
    Place place{};
    if (pieces.turned > 0) {
      if (token.position < 0) return;
      place.cos = args.rotary_cos + token.position * args.rotary_row_stride;
      place.sin = args.rotary_sin + token.position * args.rotary_row_stride;
    }
    if (kind == Kind::query) {
      const TsStrides& s = args.q_out_strides;
      place.to = static_cast<char*>(args.q_out) +
                 (token.in_batch * s.batch + head * s.head + token.in_row * s.row) * kElementBytes;
      copy<false>(x, place);
    } else if (token.page >= 0) {
      put_in_cache(args, token, place);
      if constexpr (kQuantized) place.unit = unit_of(args, token, x, place);
      copy<true>(x, place);
    }
  }

 private:
  template <bool kToCache>
  TS_DEVICE void copy(Piece<kCount>& x, const Place& place) const {
    for (i64 piece = threadIdx.x & 31; piece < pieces.count; piece += 32) {
      pieces.template put<kToCache>(piece, x, place);
      pieces.load(piece + 32, x);
    }
  }
  TS_DEVICE void put_in_cache(const TsCudaAppendArgs& args, const Token& token, Place& place) const {
    const bool is_key = kind == Kind::key;
    const TsStrides& s = is_key ? args.k_cache_strides : args.v_cache_strides;
    i64 first = token.page * s.batch + head * s.head;
    if (!args.vectorized_pages) {
      first += token.page_row * s.row;
    } else if (is_key) {
      first += token.page_row * kVector;
      place.step = args.pages.page_size * kVector;
    } else {
      first += token.page_row / kVector * args.head_dim_v * kVector + token.page_row % kVector;
      place.scattered = true;
    }
    place.to = static_cast<char*>(is_key ? args.k_cache : args.v_cache) + first * kCacheBytes;
  }
  // The row's scale: read, or chosen and written.
  TS_DEVICE float unit_of(const TsCudaAppendArgs& args, const Token& token, const Piece<kCount>& x,
                          const Place& place) const {
    const bool is_key = kind == Kind::key;
    if (float* const written = is_key ? args.k_row_scale : args.v_row_scale; written != nullptr) {
      const float largest = pieces.largest(x, place);
      const float unit = largest == 0.0f ? 1.0f : fminf(fmaxf(largest / kLargest, kLeastNormal), kMostFinite);
      const TsStrides& s = is_key ? args.k_row_scale_strides : args.v_row_scale_strides;
      if ((threadIdx.x & 31) == 0) written[token.page * s.batch + head * s.head + token.page_row * s.row] = unit;
      return unit;
    }
    const TsScale& scale = is_key ? args.k_scale : args.v_scale;
    if (scale.data == nullptr) return 1.0f;
    return args.page_scale ? scale.data[token.page * scale.batch + head * scale.head + token.page_row * scale.block]
                           : scale.data[token.sequence * scale.batch + head * scale.head];
  }
};

template <int kCount>
TS_DEVICE void append(const TsCudaAppendArgs& args) {
  const i64 rows = args.heads_q + 2 * args.heads_kv;
  const i64 warp = static_cast<i64>(blockIdx.x) * (kAppendThreads / 32) + threadIdx.x / 32;
  const i64 number = warp / rows;
  if (number >= args.tokens) return;
  const bool ragged = args.cu_seqlens != nullptr;
  Token token{ragged ? 0 : number / args.seqlen, ragged ? number : number % args.seqlen};
  const TokenRow<kCount> row(args, token, warp % rows);
  Piece<kCount> x;  // arrives while the token's place is found
  row.pieces.load(threadIdx.x & 31, x);
  if (find_place(args, number, token)) row.write(args, token, x);
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
