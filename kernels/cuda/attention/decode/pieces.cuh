// Which keys a block of threads works on, and where they lie.
#pragma once

#include "cluster.cuh"
#include "narrow.cuh"

#include "../pages.cuh"

#include "../../../gpu/attention/visible.h"

namespace ts {

// Sequences differ in length: blocks of threads take pieces from the list.
constexpr bool kUneven = cfg::kGroupMode || cfg::kPaged;

// A tile of rows of a key head: row r is query r / group of head r % group of the group.
struct Item {
  int batch, head_kv, first_row;
  Lengths length;
  i64 offset_q, offset_k;  // rows of the tensors where the sequence begins (group mode)
  const int* pages;        // kPaged: the numbers of the sequence's pages; null: page `batch` has them all

  TS_DEVICE int rows(const TsCudaDecodeArgs& args) const { return imin(kTileM, length.q * args.group - first_row); }
  TS_DEVICE int query(const TsCudaDecodeArgs& args, int row) const { return (first_row + row) / args.group; }
  TS_DEVICE int head(const TsCudaDecodeArgs& args, int row) const {
    return head_kv * args.group + (first_row + row) % args.group;
  }
};

TS_DEVICE Item item_of(const TsCudaDecodeArgs& args, int batch, int head_kv, int row_block) {
  Item item{batch, head_kv, row_block * kTileM};
  item.length = {static_cast<int>(args.seqlen_q), static_cast<int>(args.seqlen_k)};
  item.offset_q = item.offset_k = 0;
  item.pages = nullptr;
  if constexpr (cfg::kGroupMode) {
    item.offset_q = args.cu_seqlens_q[batch];
    item.length.q = static_cast<int>(args.cu_seqlens_q[batch + 1] - item.offset_q);
    if constexpr (!cfg::kPaged) {
      item.offset_k = args.cu_seqlens_k[batch];
      item.length.k = static_cast<int>(args.cu_seqlens_k[batch + 1] - item.offset_k);
    }
  }
  if constexpr (cfg::kPaged) {
    item.length.k = length_in_pages(args, batch);
    item.pages = numbers_of_pages(args, batch);
  }
  return item;
}

// The keys begin .. end - 1 that some row of an item sees, and the blocks of keys of one of its pieces. An item without
// keys has one piece without blocks: its rows are written too.
struct Piece {
  int begin, end;
  int first_tile, end_tile;
  int count;  // pieces of the item
};

TS_DEVICE int tiles_between(int begin, int end) {
  return end > begin ? ceil_div(end, kTileKeys) - begin / kTileKeys : 0;
}
// Whether an item's pieces are of one length, near the wanted one: from a list, and where they follow from it alone.
TS_DEVICE bool has_even_pieces(const TsCudaDecodeArgs& args) {
  return kUneven || args.most_pieces > 0 || has_clusters(args);
}
TS_DEVICE int pieces_between(const TsCudaDecodeArgs& args, int piece_tiles, int begin, int end) {
  if ((kClusters && args.cluster > 0) || has_clusters(args)) return args.cluster;
  const int tiles = tiles_between(begin, end);
  const int pieces = has_even_pieces(args) ? (tiles + piece_tiles / 2) / piece_tiles : ceil_div(tiles, piece_tiles);
  return imax(1, args.most_pieces > 0 ? imin(pieces, args.most_pieces) : pieces);
}

TS_DEVICE Piece piece_of(const TsCudaDecodeArgs& args, const Item& item, int piece_tiles, int number) {
  Piece piece;
  piece.begin = key_begin(args, item.length, item.query(args, 0));
  piece.end = key_end(args, item.length, item.query(args, item.rows(args) - 1));
  const int tiles = tiles_between(piece.begin, piece.end), first = piece.begin / kTileKeys;
  piece.count = pieces_between(args, piece_tiles, piece.begin, piece.end);
  const int length = has_even_pieces(args) ? ceil_div(tiles, piece.count) : piece_tiles;
  piece.first_tile = imin(first + number * length, first + tiles);
  piece.end_tile = imin(piece.first_tile + length, first + tiles);
  return piece;
}

// The piece of a block of threads, of tensors: tiles of rows side by side, and whole key heads before those that are cut.
// Of a cluster: the pieces of an item side by side.
struct TensorPiece {
  int batch, head_kv, row_block;
  int piece_tiles, number;

  TS_DEVICE explicit TensorPiece(const TsCudaDecodeArgs& args) {
    const int heads_kv = static_cast<int>(args.heads_kv), block = static_cast<int>(blockIdx.x);
    const bool in_cluster = has_clusters(args);
    const int inner = in_cluster ? args.pieces : args.row_blocks, outer = in_cluster ? args.row_blocks : args.pieces;
    const int at = block / inner, of_inner = block % inner;
    const bool whole = at < args.whole_heads;
    const int rest = at - args.whole_heads, of_outer = whole ? 0 : rest % outer;
    const int head = whole ? at : args.whole_heads + rest / outer;
    row_block = in_cluster ? of_outer : of_inner;
    number = in_cluster ? of_inner : of_outer;
    piece_tiles = whole ? kAllTiles : args.piece_tiles;
    batch = head / heads_kv;
    head_kv = head % heads_kv;
  }

  static constexpr int kAllTiles = 1 << 30;
};

TS_DEVICE int page_number(const Item& item, int page) {
  return page_number(item.pages, item.batch, page);
}

// Whether the copy engine brings the keys from `first` on: it takes no row that no query sees.
TS_DEVICE bool comes_by_engine(const TsCudaDecodeArgs& args, const Piece& piece, int first, int keys) {
  return args.map_rows > 0 && first >= piece.begin && first + keys <= piece.end;
}

// Whether some key of the piece lies in no page; all lanes of a warp ask together.
TS_DEVICE bool has_lost_keys(const TsCudaDecodeArgs& args, const Item& item, const Piece& piece) {
  bool lost = false;
  const int begin = imax(piece.begin, piece.first_tile * kTileKeys), end = imin(piece.end, piece.end_tile * kTileKeys);
  if (begin < end)
    for (int page = page_of(args, begin) + static_cast<int>(threadIdx.x & 31); page <= page_of(args, end - 1); page += 32)
      lost |= !is_page(args, page_number(item, page));
  return __any_sync(0xffffffffu, lost);
}
TS_DEVICE float lost_sum() {
  return __int_as_float(0x7fffffff);
}

// Rows of keys or of values: of one head of one sequence, or in pages.
struct KeyRows {
  const char* base;
  i64 row_bytes, page_bytes;
  i64 chunk_bytes = 16;  // kPaged: from 16 bytes of a row to the next

  TS_DEVICE KeyRows(const TsCudaDecodeArgs& args, const Item& item, const void* tensor, const TsStrides& strides) {
    row_bytes = kKeyBytes * strides.row;
    page_bytes = kKeyBytes * strides.batch;
    const i64 first = cfg::kPaged ? 0 : cfg::kGroupMode ? item.offset_k * strides.row : item.batch * strides.batch;
    base = static_cast<const char*>(tensor) + kKeyBytes * (first + item.head_kv * strides.head);
  }

  // The same for scales of pages or their rows.
  TS_DEVICE KeyRows(const Item& item, const TsScale& scale)
      : base(reinterpret_cast<const char*>(scale.data + item.head_kv * scale.head)),
        row_bytes(4 * scale.block),
        page_bytes(4 * scale.batch) {}

  // In vectorized pages a key's chunks lie apart, and of values vectors of eight keys stand for rows, each of which
  // counts as a share of its vectors.
  TS_DEVICE void be_vectorized_keys(const TsCudaDecodeArgs& args) {
    row_bytes = 16;
    chunk_bytes = 16 * args.paged.page_size;
  }
  TS_DEVICE void be_vectorized_values() { row_bytes = kKeyBytes * cfg::kHeadDimV; }

  TS_DEVICE i64 chunk_offset(int chunk) const { return cfg::kPaged ? chunk * chunk_bytes : 16 * chunk; }

  TS_DEVICE const char* at(const TsCudaDecodeArgs& args, const Item& item, int key) const {
    if constexpr (!cfg::kPaged) return base + key * row_bytes;
    const int page = page_of(args, key);
    return base + offset_in(args, page, page_to_read(args, page_number(item, page)), key);
  }

  // From the base to a key's row, in bytes; `page` is the key's, and `number` that page's.
  TS_DEVICE i64 offset_in(const TsCudaDecodeArgs& args, int page, int number, int key) const {
    return number * page_bytes + (key - page * static_cast<int>(args.paged.page_size)) * row_bytes;
  }
};

// Tells L2 to fetch the line that has an address.
TS_DEVICE void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

// The numbers of the pages that a step's keys lie in. Each lane of a warp looks its share of them up, a step before they
// are copied, and with kLate looks at what has come only then: nobody waits for the table. Keys that no row sees are not
// looked up.
template <int kKeys, bool kLate = false>
struct PagesOfStep {
  static constexpr int kShare = ceil_div(kKeys, 32);
  int numbers[kShare], next[kShare];
  bool lost;  // the lane has found a number that is no page

  TS_DEVICE void start(const TsCudaDecodeArgs& args, const Item& item, const Piece& piece, int first_key) {
    lost = false;
    look_up(args, item, piece, first_key);
  }

  TS_DEVICE void look_up(const TsCudaDecodeArgs& args, const Item& item, const Piece& piece, int first_key) {
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      const int key = first_key + 32 * i + static_cast<int>(threadIdx.x & 31);
      const bool seen = key >= piece.begin && key < piece.end;
      const int number = seen ? page_number(item, page_of(args, key)) : 0;
      next[i] = kLate ? number : page_to_read(args, number);
      if (!kLate) lost |= seen && !is_page(args, number);
    }
  }
  TS_DEVICE void advance(const TsCudaDecodeArgs& args) {
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      numbers[i] = kLate ? page_to_read(args, next[i]) : next[i];
      if (kLate) lost |= !is_page(args, next[i]);  // the first page where no row sees the key
    }
  }

  // Of the lane's share i of the keys from `first_key` on: where rows lie from their base on.
  TS_DEVICE i64 offset(const TsCudaDecodeArgs& args, const KeyRows& from, int first_key, int i) const {
    const int key = first_key + 32 * i + static_cast<int>(threadIdx.x & 31);
    return from.offset_in(args, page_of(args, key), numbers[i], key);
  }
};

// Tells L2 to fetch a multiple of 16 bytes.
TS_DEVICE void prefetch_bytes(const char* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// Sixteen bytes of a row that is longer: the cache is told to fetch what lies beside them, too.
TS_DEVICE void copy_from_far(u32 destination, const void* source) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(destination), "l"(source) : "memory");
}

}  // namespace ts
