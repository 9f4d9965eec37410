// A stage of the mma_sm80 template, multiplied by all warps of a block. What brings the stage to shared memory does not
// matter: layout.cuh says how it lies there.
#pragma once

#include "layout.cuh"

namespace ts::gemm {

constexpr int kBlocksM = kWarpM / 16, kTilesN = kWarpN / 8;

// The first row and column of the tile that this warp has.
TS_DEVICE int warp_row(u32 thread) {
  return static_cast<int>(thread / 32) / cfg::kWarpsN * kWarpM;
}
TS_DEVICE int warp_column(u32 thread) {
  return static_cast<int>(thread / 32) % cfg::kWarpsN * kWarpN;
}
TS_DEVICE int warp_row() {
  return warp_row(threadIdx.x);
}
TS_DEVICE int warp_column() {
  return warp_column(threadIdx.x);
}

// Splits a float32 into what tf32 holds of it, and the rest.
TS_DEVICE u32 to_tf32(u32 x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(as_float(x)));
  return r;
}
TS_DEVICE void split(u32 (&x)[4], u32 (&rest)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 whole = x[i];
    x[i] = to_tf32(whole);
    rest[i] = to_tf32(__float_as_uint(as_float(whole) - as_float(x[i])));
  }
}

// Adds the products of the stage at address `stage`.
TS_DEVICE void multiply(u32 stage, Sum (&sums)[kBlocksM][4 * kTilesN]) {
  const u32 a_address = lane_address<LayoutA, true>(stage, warp_row());
  const u32 b_address = lane_address<LayoutB, false>(stage + LayoutA::kBytes, warp_column());
#pragma unroll
  for (int step = 0; step < kTileBytesK / 32; ++step) {
    u32 a[kBlocksM][4], a_rest[kBlocksM][4];
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
      load_fragment<LayoutA>(a[i], a_address, 16 * i, step);
      if constexpr (cfg::kTypeA == TS_GEMM_F32) split(a[i], a_rest[i]);
    }
#pragma unroll
    for (int j = 0; j < kTilesN; j += 2) {
      u32 b[4], b_rest[4];
      load_fragment<LayoutB>(b, b_address, 8 * j, step);
      if constexpr (cfg::kTypeA == TS_GEMM_F32) split(b, b_rest);
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          Sum(&d)[4] = reinterpret_cast<Sum(&)[4]>(sums[i][4 * (j + e)]);
          if constexpr (cfg::kTf32x3) {
            multiply_add(d, a_rest[i][0], a_rest[i][1], a_rest[i][2], a_rest[i][3], b[2 * e], b[2 * e + 1]);
            multiply_add(d, a[i][0], a[i][1], a[i][2], a[i][3], b_rest[2 * e], b_rest[2 * e + 1]);
          }
          multiply_add(d, a[i][0], a[i][1], a[i][2], a[i][3], b[2 * e], b[2 * e + 1]);
        }
      }
    }
  }
}

}  // namespace ts::gemm
