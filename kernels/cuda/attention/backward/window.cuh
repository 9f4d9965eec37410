// Which pairs of queries and keys are visible, as ranges; needs kMaskRight and kMaskLeft.
#pragma once

#include "workspace.cuh"

namespace ts {

struct Range {
  int begin, end;

  TS_DEVICE bool has(int i) const { return i >= begin && i < end; }
};

// A window's reach as an int; a longer one reaches past every sequence. A moved window's may be negative.
TS_DEVICE int reach(i64 window) {
  constexpr i64 kFar = 1 << 30;
  return static_cast<int>(window > kFar ? kFar : window < -kFar ? -kFar : window);
}

// The mask of a sequence: query i sees keys i + first .. i + last.
struct Window {
  int first, last;
  int length_q, length_k;

  TS_DEVICE void start(const TsCudaAttentionBackwardArgs& args, const Sequence& s) {
    const int diagonal = s.diagonal(args);
    first = cfg::kMaskLeft ? diagonal - reach(args.window_left) : 0;
    last = cfg::kMaskRight ? diagonal + reach(args.window_right) : 0;
    length_q = s.length_q;
    length_k = s.length_k;
  }
  TS_DEVICE Range keys_of(int query) const {
    Range r = {0, query < length_q ? length_k : 0};
    if constexpr (cfg::kMaskLeft) r.begin = imax(0, query + first);
    if constexpr (cfg::kMaskRight) r.end = imin(r.end, query + last + 1);
    return r;
  }
  TS_DEVICE Range queries_of(int key) const {
    Range r = {0, key < length_k ? length_q : 0};
    if constexpr (cfg::kMaskRight) r.begin = imax(0, key - last);
    if constexpr (cfg::kMaskLeft) r.end = imin(r.end, key - first + 1);
    return r;
  }
  // Tiles of `kTile` queries that see a key of key .. key + keys - 1, and of keys that such queries see. May be empty.
  template <int kTile>
  TS_DEVICE Range query_tiles(int key, int keys) const {
    const int begin = queries_of(key).begin, end = queries_of(imin(key + keys, length_k) - 1).end;
    return {begin / kTile, begin < end ? ceil_div(end, kTile) : 0};
  }
  template <int kTile>
  TS_DEVICE Range key_tiles(int query, int queries) const {
    const int begin = keys_of(query).begin, end = keys_of(imin(query + queries, length_q) - 1).end;
    return {begin / kTile, begin < end ? ceil_div(end, kTile) : 0};
  }
  // Whether every query of the tile sees every key.
  TS_DEVICE bool is_whole(int query, int queries, int key, int keys) const {
    bool whole = key + keys <= length_k && query + queries <= length_q;
    if constexpr (cfg::kMaskRight) whole = whole && key + keys - 1 <= query + last;
    if constexpr (cfg::kMaskLeft) whole = whole && key >= query + queries - 1 + first;
    return whole;
  }
  // Whether no query of the tile sees any key, by the mask alone.
  TS_DEVICE bool is_hidden(int query, int queries, int key, int keys) const {
    bool hidden = false;
    if constexpr (cfg::kMaskRight) hidden = key > query + queries - 1 + last;
    if constexpr (cfg::kMaskLeft) hidden = hidden || key + keys - 1 < query + first;
    return hidden;
  }
};

}  // namespace ts
