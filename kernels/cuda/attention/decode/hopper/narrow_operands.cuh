// Latent rows of 8 bits as operands of wgmma: A matrices of fp16 in registers, 64 rows of which each warp has 16. What a
// warp multiplies it widens itself, so that rows lie in shared memory as they come.
//
// As keys, a thread gets four neighbours of a row where its operand wants two pairs of every fourth, and queries are stored
// in that order (narrow.cuh). As values, transposed, it gets two neighbours of two keys: the even columns of sixteen become
// the upper eight rows of the warp's matrix, the odd ones the lower eight.
#pragma once

#include "narrow_layout.cuh"

namespace ts {

// Of a load, and of the two products of depth 16 that it is for.
using Raw = u32[4];
using Operands = u32[2][4];

// Of 32 elements of a warp's 16 keys.
TS_DEVICE void widen_keys(const Raw& raw, Operands& a) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 pairs[2];
    widen<false>(raw[i], pairs);
    a[i / 2][i % 2] = pairs[0];
    a[i / 2][i % 2 + 2] = pairs[1];
  }
}

// Of 16 columns of a unit's 32 keys, transposed.
TS_DEVICE void widen_values(const Raw& raw, Operands& a) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 pairs[2];
    widen_columns<false>(raw[i], pairs);
    a[i / 2][i % 2 * 2] = pairs[0];
    a[i / 2][i % 2 * 2 + 1] = pairs[1];
  }
}
// The column of a warp's 16 that is row i of its matrix.
TS_DEVICE constexpr int column_of_row(int i) {
  return i % 8 * 2 + i / 8;
}

// Four matrices of 8 rows, transposed: a lane's pair of elements are two rows' of one column.
TS_DEVICE void store_matrices_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

}  // namespace ts
