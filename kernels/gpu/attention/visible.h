// Which keys a query sees: the window around the diagonal, as a half-open range. Needs kMaskRight, kMaskLeft and
// kTileN, and of the backend's own header imin, imax, ceil_div and i64.
#pragma once

#include "../../contract/attention.h"

namespace ts {

// The lengths of one sequence.
struct Lengths {
  int q;
  int k;
  // The mask's diagonal for query i is key i + diagonal().
  TS_DEVICE int diagonal(const TsAttentionCall& args) const { return args.mask_bottom_right ? k - q : 0; }
};

// A window's reach as an int; a longer one reaches past every sequence. A moved window's may be negative.
TS_DEVICE int reach(i64 window) {
  constexpr i64 kFar = 1 << 30;
  return static_cast<int>(window > kFar ? kFar : window < -kFar ? -kFar : window);
}

// One past the last key that a query sees, and the first one.
TS_DEVICE int key_end(const TsAttentionCall& args, const Lengths& lengths, int query) {
  if constexpr (!cfg::kMaskRight) return lengths.k;
  return imax(0, imin(lengths.k, query + lengths.diagonal(args) + reach(args.window_right) + 1));
}
TS_DEVICE int key_begin(const TsAttentionCall& args, const Lengths& lengths, int query) {
  if constexpr (!cfg::kMaskLeft) return 0;
  return imax(0, query + lengths.diagonal(args) - reach(args.window_left));
}

// The key blocks kTileN wide that queries first..last see: at least one, so that queries that see nothing need no path
// of their own; they walk one masked block and come out as zeros.
struct BlockRange {
  int begin;
  int end;
};
TS_DEVICE BlockRange visible_blocks(const TsAttentionCall& args, const Lengths& lengths, int first, int last) {
  BlockRange r;
  r.begin = imax(0, imin(key_begin(args, lengths, first) / cfg::kTileN, ceil_div(lengths.k, cfg::kTileN) - 1));
  r.end = imax(ceil_div(key_end(args, lengths, last), cfg::kTileN), r.begin + 1);
  return r;
}

}  // namespace ts
