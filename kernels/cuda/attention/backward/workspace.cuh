// A sequence's lengths and rows, in the tensors and in the workspace.
#pragma once

#include "../../common/common.cuh"
#include "abi.h"

namespace ts {

// Whether dq_sum may be null: the products store dq.
constexpr bool kMayStoreDq = !cfg::kGroupMode && cfg::kSumColumns > 0;

struct Sequence {
  int length_q, length_k;
  int offset_q, offset_k;  // first rows in packed tensors (group mode), else 0
  int work_row;            // first row in the workspace of a head that sequences share (group mode), else 0

  TS_DEVICE void find(const TsCudaAttentionBackwardArgs& args, int batch) {
    length_q = static_cast<int>(args.seqlen_q);
    length_k = static_cast<int>(args.seqlen_k);
    offset_q = offset_k = work_row = 0;
    if constexpr (cfg::kGroupMode) {
      offset_q = args.cu_seqlens_q[batch];
      offset_k = args.cu_seqlens_k[batch];
      length_q = args.cu_seqlens_q[batch + 1] - offset_q;
      length_k = args.cu_seqlens_k[batch + 1] - offset_k;
      work_row = (offset_q + batch * TS_CUDA_BACKWARD_ROWS) / TS_CUDA_BACKWARD_ROWS * TS_CUDA_BACKWARD_ROWS;
    }
  }
  // The mask's diagonal for query i is key i + diagonal().
  TS_DEVICE int diagonal(const TsCudaAttentionBackwardArgs& args) const {
    return args.mask_bottom_right ? length_k - length_q : 0;
  }
};

// A row of a tensor; `offset` is the sequence's first row in a packed one.
template <class T>
TS_DEVICE T* row_of(T* tensor, const TsStrides& s, int batch, int head, i64 row, int offset) {
  return tensor + (cfg::kGroupMode ? 0 : batch * s.batch) + head * s.head + (row + offset) * s.row;
}

TS_DEVICE i64 workspace_row(const TsCudaAttentionBackwardArgs& args, const Sequence& s, int batch, int head) {
  return ((cfg::kGroupMode ? 0 : batch * args.heads_q) + head) * args.padded_q + s.work_row;
}
TS_DEVICE float* lse_rows(const TsCudaAttentionBackwardArgs& args, const Sequence& s, int batch, int head) {
  return args.statistics + workspace_row(args, s, batch, head);
}
TS_DEVICE float* delta_rows(const TsCudaAttentionBackwardArgs& args, const Sequence& s, int batch, int head) {
  return lse_rows(args, s, batch, head) + (cfg::kGroupMode ? 1 : args.batch) * args.heads_q * args.padded_q;
}

// Of the tile that begins at `row`, one for each warpgroup.
TS_DEVICE unsigned* turns_of(const TsCudaAttentionBackwardArgs& args, const Sequence& s, int batch, int head, int row) {
  return args.turns + (workspace_row(args, s, batch, head) + row) / TS_CUDA_BACKWARD_TURN_ROWS * 2;
}
// Sums of dk and dv in parts: slices of 16 columns of 128 keys.
constexpr int kPartSlice = 16 * 128;  // floats
constexpr int kSlicesQk = ceil_div(cfg::kHeadDimQk, 16);
constexpr int kSlices = kSlicesQk + ceil_div(cfg::kHeadDimV, 16);
// From one part of a block of keys to the next.
TS_DEVICE i64 part_stride(const TsCudaAttentionBackwardArgs& args) {
  return i64{args.key_blocks} * (kSlices * kPartSlice);
}
// Of part 0 of the first key's block.
TS_DEVICE float* key_parts_of(const TsCudaAttentionBackwardArgs& args, int batch, int head, int key) {
  const int first = (batch * static_cast<int>(args.heads_kv) + head) * args.head_parts * args.tile_parts;
  return args.key_parts + first * part_stride(args) + i64{key / 128} * (kSlices * kPartSlice);
}

// A quotient by a number of parts, mostly 1.
TS_DEVICE int share_of(int all, int parts) {
  return parts == 1 ? all : all / parts;
}
// A warpgroup's 64 rows of a part, from `key` on; `to` is the part's, of dk or of dv.
template <int kRegisters>
TS_DEVICE void store_part(float* to, int key, const float (&sums)[kRegisters], float scale) {
  to += (key % 128 * 2 + static_cast<int>(threadIdx.x) % 128) * 4;
  const bool empty = scale == 0.0f;
#pragma unroll
  for (int i = 0; i < kRegisters; i += 4)
    *reinterpret_cast<float4*>(to + i * (kPartSlice / 8)) =
        empty ? float4{0.0f, 0.0f, 0.0f, 0.0f}
              : float4{sums[i] * scale, sums[i + 1] * scale, sums[i + 2] * scale, sums[i + 3] * scale};
}

// Of a head's gradient by its slope, one for each block of keys and warp.
TS_DEVICE float* dalibi_parts_of(const TsCudaAttentionBackwardArgs& args, int batch, int head) {
  return args.dalibi_parts + (batch * args.heads_q + head) * i64{8} * args.key_blocks;
}

}  // namespace ts
