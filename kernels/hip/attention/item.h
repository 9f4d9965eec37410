// Which rows and keys a block of threads works on, and where they lie.
#pragma once

#include "layout.h"

#include "../../gpu/attention/visible.h"

namespace ts {

struct Item {
  int batch, head, first_row;  // `head`: of queries or, with packed heads, of keys
  Lengths length;
  i64 offset_q, offset_k;  // rows of the tensors where the sequence begins (group mode)
  // kPaged: the numbers of the sequence's pages, page_mask being -1. Where one page has them all, page_mask is 0 and
  // whole_page that page: arithmetic, because branches around loads cost registers.
  const int* pages;
  int page_mask, whole_page;
  int end_row;
  int begin, end;     // of the keys that some row sees
  BlockRange blocks;  // of these keys: one at least
  int pieces;
};

TS_DEVICE int query_of(const TsHipAttentionArgs& args, int row) {
  return cfg::kPackGqa ? row / args.group : row;
}
TS_DEVICE int head_of(const TsHipAttentionArgs& args, const Item& item, int row) {
  return cfg::kPackGqa ? item.head * args.group + row % args.group : item.head;
}

TS_DEVICE Item item_of(const TsHipAttentionArgs& args, int batch, int head, int tile) {
  Item item{.batch = batch, .head = head, .first_row = tile * kTileM};
  item.length = {static_cast<int>(args.seqlen_q), static_cast<int>(args.seqlen_k)};
  item.offset_q = item.offset_k = 0;
  item.pages = nullptr;
  item.page_mask = item.whole_page = 0;
  if constexpr (cfg::kGroupMode) {
    item.offset_q = args.cu_seqlens_q[batch];
    item.length.q = static_cast<int>(args.cu_seqlens_q[batch + 1] - item.offset_q);
    if constexpr (!cfg::kPaged) {
      item.offset_k = args.cu_seqlens_k[batch];
      item.length.k = static_cast<int>(args.cu_seqlens_k[batch + 1] - item.offset_k);
    }
  }
  if constexpr (cfg::kPaged) {
    item.length.k = imax(0, imin(item.length.k, args.paged.lengths[batch]));
    const bool has_table = args.paged.numbers != nullptr;
    item.page_mask = has_table ? -1 : 0;
    item.whole_page = has_table ? 0 : batch;
    item.pages = args.paged.lengths;  // read in vain where there is no table
    if (has_table)
      item.pages =
          args.paged.numbers + (args.paged.offsets != nullptr ? args.paged.offsets[batch] : batch * args.paged.stride);
  }
  item.end_row = imin(item.first_row + kTileM, cfg::kPackGqa ? item.length.q * args.group : item.length.q);
  const int first = query_of(args, item.first_row), last = query_of(args, item.end_row - 1);
  item.begin = key_begin(args, item.length, first);
  item.end = key_end(args, item.length, last);
  item.blocks = visible_blocks(args, item.length, first, last);
  item.pieces = cfg::kSplit ? ceil_div(item.blocks.end - item.blocks.begin, args.piece_tiles) : 1;
  return item;
}

// Where an item's partial results lie: those of its first piece.
TS_DEVICE i64 partial_of(const TsHipAttentionArgs& args, const Item& item) {
  const i64 heads = cfg::kPackGqa ? args.heads_kv : args.heads_q;
  return ((item.batch * heads + item.head) * args.row_tiles + item.first_row / kTileM) * args.pieces * kTileM *
         (cfg::kHeadDimV + TS_HIP_STATE_FLOATS);
}

// The rows of a tensor that an item has of one head.
template <class Element>
TS_DEVICE Element* rows_of(const Item& item, Element* tensor, const TsStrides& strides, int head, i64 first) {
  return tensor + (cfg::kGroupMode ? first * strides.row : item.batch * strides.batch) + head * strides.head;
}

TS_DEVICE int key_head_of(const TsHipAttentionArgs& args, const Item& item) {
  return cfg::kPackGqa ? item.head : item.head / args.group;
}

// What all keys or values of an item are multiplied by.
TS_DEVICE float item_scale(const TsHipAttentionArgs& args, const Item& item, const TsScale& scale) {
  if constexpr (!kNarrow || kScaledRows) return 1.0f;
  if (scale.data == nullptr) return 1.0f;
  return scale.data[item.batch * scale.batch + key_head_of(args, item) * scale.head];
}

// Keys or values in memory: of one head of one sequence, or in pages.
struct KeySource {
  const TsHipAttentionArgs& args;
  const Item& item;
  const u8* base;
  i64 row_bytes, page_bytes;

  TS_DEVICE KeySource(const TsHipAttentionArgs& a, const Item& i, const void* tensor, const TsStrides& strides)
      : args(a), item(i), row_bytes(kKeyElementBytes * strides.row), page_bytes(kKeyElementBytes * strides.batch) {
    const i64 first = cfg::kPaged ? 0 : cfg::kGroupMode ? item.offset_k * strides.row : item.batch * strides.batch;
    base = static_cast<const u8*>(tensor) + kKeyElementBytes * (first + key_head_of(args, item) * strides.head);
  }

  // The row of a key or, where no row of the item sees it, of the nearest one that some row sees. There must be one.
  TS_DEVICE const u8* at(int any_key) const {
    const int key = nearest(any_key);
    if constexpr (!cfg::kPaged) return base + key * row_bytes;
    const Place place = place_of(key);
    return base + place.page * page_bytes + place.row * row_bytes;
  }
  // The scale of the same.
  TS_DEVICE float scale_at(const TsScale& scale, int any_key) const {
    const Place place = place_of(nearest(any_key));
    return scale.data == nullptr
               ? 1.0f
               : scale.data[place.page * scale.batch + key_head_of(args, item) * scale.head + place.row * scale.block];
  }

 private:
  TS_DEVICE int nearest(int key) const { return imax(item.begin, imin(key, item.end - 1)); }
  struct Place {
    i64 page;
    int row;
  };
  TS_DEVICE Place place_of(int key) const {
    const int page = static_cast<int>((multiply_high(key, args.page_multiplier) + key) >> args.page_shift);
    const i64 number = (item.pages[page & item.page_mask] & item.page_mask) | item.whole_page;
    return {number, key - page * static_cast<int>(args.paged.page_size)};
  }
};

}  // namespace ts
