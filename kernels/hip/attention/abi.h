// What an attention kernel for AMD GPUs is called with. The meaning is that of contract/attention.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg and the macros TS_ENTRY and TS_MATRIX_BUILTIN,
// followed by one include: "hip/attention/attention_fwd.h" or, for the second step of a split, "hip/attention/join.h".
// These say what the table holds and how the entry is launched.
//
// An item is a tile of rows of one sequence: of one query head or, with packed heads, of one key head, whose row r is
// query r / group of head r % group of the group. The keys of an item are cut into pieces of `piece_tiles` blocks of
// keys, one block of threads each; of an item with several pieces each leaves a partial result, which the second step
// joins.
#pragma once

#include "../../contract/attention.h"
#include "../../contract/paged_keys.h"
#include "../../contract/scale.h"

// Of a partial result: floats of a row beside its values. The first is the row's base in units of log2 (-infinity when
// it saw nothing), the second its sum; the others keep the values of the next row aligned.
#define TS_HIP_STATE_FLOATS 4

// Passed by value. The head dimension of q, k, v and o is contiguous (column == 1).
struct TsHipAttentionArgs : TsAttentionCall {
  TsPagedKeys paged;  // read by kernels for pages
  // key / page_size is (high word of key * page_multiplier + key) >> page_shift for keys below 2^31.
  unsigned int page_multiplier;
  int page_shift;
  TsScale k_scale, v_scale;  // of keys and values of 8 bits, by their head or by pages
  int group;                 // query heads of a key head
  int row_tiles;             // tiles of rows of a head of the longest sequence
  float* partials;           // split kernels: [item][piece][row][head_dim_v + TS_HIP_STATE_FLOATS]
  int piece_tiles;           // blocks of keys of a piece
  int pieces;                // of the longest item; 1: nothing is left to join
};
