// What a warp multiplies: 16 of its rows with rows of shared memory, and what comes of that with their columns. Sums lie as
// the mma leaves them: registers 4j, 4j + 1 are the row lane / 4, columns 8j + 2 (lane % 4) and the next one; 4j + 2, 4j + 3
// the same columns eight rows below.
#pragma once

#include "load_rows.cuh"

namespace ts {

// Tensor cores cut sums off where float32 would round them, always towards zero, so that the error of a long sum grows
// with its length. With kTf32x3 they give sums of kShortSum products, and float32 additions join these.
constexpr int kShortSum = 32;

template <int kSteps, int kColumns, int kPitch>
TS_DEVICE void add_row_products(float* sums, u32 a_address, u32 b_address) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    Operand<4> a;
    load_matrices(a.head, a_address + 32 * k);
    a.split();
#pragma unroll
    for (int n = 0; n < kColumns; n += 16) {
      Operand<4> b;
      load_matrices(b.head, b_address + n * kPitch + 32 * k);
      b.split();
      multiply_add<0>(sums + n / 2, a, b);
      multiply_add<2>(sums + n / 2 + 4, a, b);
    }
  }
}

template <int kSteps, int kColumns, int kPitch>
TS_DEVICE void add_short_row_products(float* sums, u32 a_address, u32 b_address) {
  constexpr int kAtOnce = kColumns < 32 ? kColumns : 32;
#pragma unroll
  for (int n = 0; n < kColumns; n += kAtOnce) {
    __syncwarp();
    float part[kAtOnce / 2] = {};
    add_row_products<kSteps, kAtOnce, kPitch>(part, a_address, b_address + n * kPitch);
#pragma unroll
    for (int i = 0; i < kAtOnce / 2; ++i) sums[n / 2 + i] += part[i];
  }
}

// sums (16 x kColumns) += the 16 rows at `a` times the kColumns rows at `b`, kSteps * 32 bytes of each; a row has kPitch
// bytes. Short sums are made one after another and of 32 columns at a time, so that they and operands loaded ahead do
// not take the registers of the caller's other sums.
template <int kSteps, int kColumns, int kPitch>
TS_DEVICE void multiply_rows(float* sums, u32 a, u32 b) {
  const int lane = threadIdx.x & 31;
  const u32 a_address = a + lane % 16 * kPitch + lane / 16 * 16;
  const u32 b_address = b + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 16;
  if constexpr (!cfg::kTf32x3) {
    add_row_products<kSteps, kColumns, kPitch>(sums, a_address, b_address);
  } else {
    constexpr int kShort = kShortSum * kElementBytes / 32;
#pragma unroll(kColumns > 32 ? 1 : kSteps)
    for (int step = 0; step + kShort <= kSteps; step += kShort)
      add_short_row_products<kShort, kColumns, kPitch>(sums, a_address + 32 * step, b_address + 32 * step);
    if constexpr (kSteps % kShort > 0)
      add_short_row_products<kSteps % kShort, kColumns, kPitch>(sums, a_address + kSteps / kShort * kShort * 32,
                                                                b_address + kSteps / kShort * kShort * 32);
  }
}

// sums (16 x kColumns) += weights, packed 16-bit elements (16 x kRows), times the kRows rows at `b`.
template <int kRows, int kColumns, int kPitch>
TS_DEVICE void multiply_columns(float* sums, const u32* weights, u32 b) {
  const int lane = threadIdx.x & 31;
  const u32 address = b + lane % 16 * kPitch + lane / 16 * 16;
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    const Operand<4> a{{weights[4 * k], weights[4 * k + 1], weights[4 * k + 2], weights[4 * k + 3]}, {}};
#pragma unroll
    for (int n = 0; n < kColumns; n += 16) {
      Operand<4> b;
      load_matrices_transposed(b.head, address + 16 * k * kPitch + 2 * n);
      multiply_add<0>(sums + n / 2, a, b);
      multiply_add<2>(sums + n / 2 + 4, a, b);
    }
  }
}

// The same in float32, for 8 * kEights rows and 16 columns. The order of rows within a product is free: what a thread
// holds of the weights, columns 2q and 2q + 1 of eight (q = lane % 4), are elements q and q + 4 of the operand. So is the
// order of columns: of sixteen, the first mma has the even ones and the second the odd ones, and a thread reads pairs and
// holds columns 4q .. 4q + 3 (store_row_fp32).
template <int kEights>
TS_DEVICE void take_weights(Operand<4> (&a)[kEights], const float* weights) {
#pragma unroll
  for (int k = 0; k < kEights; ++k) {
    a[k].head[0] = __float_as_uint(weights[4 * k]);
    a[k].head[1] = __float_as_uint(weights[4 * k + 2]);
    a[k].head[2] = __float_as_uint(weights[4 * k + 1]);
    a[k].head[3] = __float_as_uint(weights[4 * k + 3]);
    a[k].split();
  }
}
template <int kPitch, int kEights>
TS_DEVICE void multiply_columns_fp32(float* sums, const Operand<4> (&a)[kEights], u32 b) {
  const int lane = threadIdx.x & 31;
  const u32 address = b + (lane & 3) * 2 * kPitch + lane / 4 * 8;
#pragma unroll
  for (int k = 0; k < kEights; ++k) {
    Operand<4> pairs;
    load_pair(pairs.head[0], pairs.head[2], address + 8 * k * kPitch);
    load_pair(pairs.head[1], pairs.head[3], address + (8 * k + 1) * kPitch);
    pairs.split();
    multiply_add<0>(sums, a[k], pairs);
    multiply_add<2>(sums + 4, a[k], pairs);
  }
}

// Stores one of a thread's rows of such sums, as store_row does.
template <int N>
TS_DEVICE void store_row_fp32(char* out, const float (&o)[N], int r, float scale, int columns) {
  if (out == nullptr) return;
  float* const to = reinterpret_cast<float*>(out);
  const bool empty = scale == 0.0f;
#pragma unroll
  for (int i = 0; i < N; i += 8) {
    const int column = 2 * i + 4 * (threadIdx.x & 3);
    const float values[4] = {o[i + 2 * r], o[i + 2 * r + 4], o[i + 2 * r + 1], o[i + 2 * r + 5]};
    float results[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) results[e] = empty ? 0.0f : values[e] * scale;
    if constexpr (cfg::kUnaligned) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (column + e < columns) to[column + e] = results[e];
    } else if (column < columns) {
      asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + column), "f"(results[0]), "f"(results[1]),
                   "f"(results[2]), "f"(results[3])
                   : "memory");
    }
  }
}

}  // namespace ts
