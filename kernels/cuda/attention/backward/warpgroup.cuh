// What warpgroups of Hopper's kernels do alike: pairs of 64 rows by the rows of a tile on the other side, in the order of
// wgmma's accumulators.
#pragma once

#include "../../common/matrices.cuh"
#include "hopper/wgmma.cuh"
#include "scores.cuh"

namespace ts {

// Statistics of a tile: those of columns 8j, 8j + 1 from the thread's first.
struct OfColumns {
  u32 address;
  TS_DEVICE float2 operator()(int j) const { return load_pair(address + 32 * j); }
};
TS_DEVICE OfColumns of_columns(u32 statistics) {
  return {statistics + 8 * (threadIdx.x & 3)};
}

// The thread's first pair of 64 rows and the columns from `column` on.
TS_DEVICE Place first_pair(int row, int column) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
  return {row + 16 * warp + (lane >> 2), column + 2 * (lane & 3)};
}

TS_DEVICE void arrive_by_warps(u32 barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

// Rows from `begin` on become zeros: beyond a packed sequence's end lie its neighbour's, and 0 * NaN is NaN. The threads
// of one warpgroup or more do it together, and meet when they are done with all that they zero: end_zeros.
template <int kTeam>
TS_DEVICE void zero_rows(u32 address, int columns, int rows, int begin) {
  const int chunks = (rows - begin) * 8;  // of 16 bytes
  for (int c = 0; c < columns; ++c) {
    for (int i = threadIdx.x % kTeam; i < chunks; i += kTeam)
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address + (c * rows + begin) * 128 + i * 16), "r"(0)
                   : "memory");
  }
}

template <int kTeam>
TS_DEVICE void end_zeros(int barrier) {
  fence_proxy_async();
  named_barrier_sync(barrier, kTeam);
}

// The first 16 * N columns of 64 rows, held in registers: products with them read half as much of shared memory.
template <int N>
struct HeldRows {
  u32 of[N > 0 ? N : 1][4];

  // Of a tile of kRows.
  template <int kRows>
  TS_DEVICE void load(u32 rows) {
    const int lane = threadIdx.x & 31, row = 16 * (threadIdx.x >> 5 & 3) + (lane & 15);
#pragma unroll
    for (int i = 0; i < N; ++i)
      load_matrices(of[i], rows + (i / 4 * kRows + row) * 128 + ((i % 4 * 2 + (lane >> 4)) ^ (row & 7)) * 16);
  }
};

// d (64 x 64) = 64 rows of a tile of kRows times 64 rows of 16 * kSteps columns, begun.
template <int kSteps, int kRows, int N>
TS_DEVICE void begin_product(float (&d)[32], const HeldRows<N>& held, u32 rows, u32 tile) {
  const u64 a = descriptor_k_major(uniform(rows)), b = descriptor_k_major(uniform(tile));
  pin(d);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const u64 columns = b + i / 4 * (64 * 8) + i % 4 * 2;
    if (i < N)
      wgmma_held<kElement>(d, held.of[i < N ? i : 0], columns, i > 0);
    else
      Wgmma<64, kElement>::ss(d, a + i / 4 * (kRows * 8) + i % 4 * 2, columns, i > 0);
  }
  wgmma_commit();
}
// sums (64 x kWidth) += weights (64 x kTile) times the kTile rows of a tile, begun.
template <int kTile>
TS_DEVICE u64 columns_of(u32 tile) {
  return descriptor_n_major(uniform(tile), kTile * 128);
}
template <int kWidth, int kTile>
TS_DEVICE void begin_sums(float (&sums)[kWidth / 2], const u32 (&weights)[kTile / 4], u64 columns) {
  pin(sums);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kTile / 16; ++i)
    Wgmma<kWidth, kElement>::rs(sums, weights[4 * i], weights[4 * i + 1], weights[4 * i + 2], weights[4 * i + 3],
                                columns + i * 128, 1);
  wgmma_commit();
}

// A warpgroup's 64 rows of a gradient from `first` on, of `length` rows in a sequence.
template <int kWidth>
TS_DEVICE void store_rows(const float (&sums)[kWidth / 2], void* tensor, const TsStrides& strides, int batch, int head,
                          int first, int length, int offset, float scale, int columns) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + 16 * warp + (lane >> 2) + 8 * r;
    char* to = nullptr;
    if (row < length)
      to = reinterpret_cast<char*>(row_of(static_cast<unsigned short*>(tensor), strides, batch, head, row, offset));
    store_row<cfg::kBf16>(to, sums, r, scale, columns);
  }
}

// The warp's part, of 16 keys from `key` on, of the gradient by the head's slope.
TS_DEVICE void store_of_slope(Call& call, int key) {
  float sum = call.of_slope;
  call.of_slope = 0.0f;
#pragma unroll
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
  if (threadIdx.x % 32 == 0) dalibi_parts_of(call.args, call.batch, call.head)[key / 16] = sum;
}

}  // namespace ts
