// The products of decode's warps by mma.sync: scores of a warp's 16 rows and kTileN keys, and sums of values over keys.
// Needs the layout of a template: kPitchQ, kPitchK, kPitchV, kDepthQk, kSwizzled.
#pragma once

#include "../mma_sm80/ptx.cuh"
#include "../softmax.cuh"
#include "narrow.cuh"

namespace ts {

// Steps of depth whose operands are loaded ahead of their products.
constexpr int kDepthAhead = kDepthQk > 256 ? 2 : 16;

// Of rows of narrow keys: where chunk `chunk` of row `row` lies, from the row's beginning; and `bytes` further in a row,
// a multiple of 32, from one of its first two chunks.
TS_DEVICE u32 place_of_chunk(int row, int chunk) {
  return 16 * (kSwizzled ? chunk ^ (row & 7) : chunk);
}
TS_DEVICE u32 along_row(u32 address, int bytes) {
  return kSwizzled ? (address ^ (bytes & 127)) + (bytes & ~127) : address + bytes;
}

// Scores of the keys at `keys`, by queries whose first row is at `queries`.
TS_DEVICE void multiply_keys(float (&s)[kScores], u32 queries, u32 keys) {
  const int lane = threadIdx.x & 31;
  const u32 a_address = queries + lane % 16 * kPitchQ + lane / 16 * 16;
#pragma unroll
  for (int i = 0; i < kScores; ++i) s[i] = 0.0f;
  if constexpr (kNarrow) {
    const u32 b_address = keys + lane % 16 * kPitchK + place_of_chunk(lane, lane / 16);
#pragma unroll kDepthAhead
    for (int k = 0; k < kDepthQk / 32; ++k) {
      u32 a[2][4];
      load_matrices(a[0], a_address + 64 * k);
      load_matrices(a[1], a_address + 64 * k + 32);
#pragma unroll
      for (int n = 0; n < cfg::kTileN; n += 16) {
        u32 b[4], pairs[2];
        load_matrices(b, along_row(b_address, 32 * k) + n * kPitchK);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          widen<kScoresBf16>(b[i], pairs);
          mma<kScoresBf16>(s + n / 2 + i % 2 * 4, a[i / 2], pairs[0], pairs[1]);
        }
      }
    }
  } else {
    const u32 b_address = keys + (lane / 16 * 8 + lane % 8) * kPitchK + lane / 8 % 2 * 16;
#pragma unroll kDepthAhead
    for (int k = 0; k < kDepthQk / 16; ++k) {
      u32 a[4];
      load_matrices(a, a_address + 32 * k);
#pragma unroll
      for (int n = 0; n < cfg::kTileN; n += 16) {
        u32 b[4];
        load_matrices(b, b_address + n * kPitchK + 32 * k);
        mma(s + n / 2, a, b[0], b[1]);
        mma(s + n / 2 + 4, a, b[2], b[3]);
      }
    }
  }
}

// Adds what sixteen keys' values, of kPitch bytes from key to key, contribute to kColumns columns by the probabilities
// `a`. Of narrow values the even and the odd columns of sixteen are products of their own (column_of).
template <int kPitch, int kColumns>
TS_DEVICE void add_values(float (&o)[kColumns / 2], const u32 (&a)[4], u32 values) {
  const int lane = threadIdx.x & 31;
  const u32 address = values + lane % 16 * kPitch + place_of_chunk(lane, lane / 16);
#pragma unroll
  for (int n = 0; n < kColumns; n += kProductColumns) {
    u32 b[4];
    load_matrices_transposed(b, along_row(address, kKeyBytes * n));
    if constexpr (kNarrow) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 upper[2], lower[2];
        widen_columns<kValuesBf16>(b[2 * half], upper);
        widen_columns<kValuesBf16>(b[2 * half + 1], lower);
        mma<kValuesBf16>(o + n / 2 + 8 * half, a, upper[0], lower[0]);
        mma<kValuesBf16>(o + n / 2 + 8 * half + 4, a, upper[1], lower[1]);
      }
    } else {
      mma(o + n / 2, a, b[0], b[1]);
      mma(o + n / 2 + 4, a, b[2], b[3]);
    }
  }
}

// The same of values that lie as columns, in vectors of eight keys (place_of_vector), for the sixteen keys of step `k`.
template <int kColumns>
TS_DEVICE void add_value_columns(float (&o)[kColumns / 2], const u32 (&a)[4], u32 values, int k) {
  const int lane = threadIdx.x & 31, column = lane / 16 * 8 + lane % 8;
  const u32 address = values + place_of_vector(column, 2 * k + lane / 8 % 2);
#pragma unroll
  for (int n = 0; n < kColumns; n += 16) {
    u32 b[4];
    load_matrices(b, address + n * kColumnOfValues);
    mma(o + n / 2, a, b[0], b[1]);
    mma(o + n / 2 + 4, a, b[2], b[3]);
  }
}

// Writes a thread's columns of one of its two rows into a row of floats in shared memory, in their order.
template <int kColumns>
TS_DEVICE void spread_row(u32 row, const float (&o)[kColumns / 2], int r) {
  const int quad = threadIdx.x & 3;
  if constexpr (kNarrow) {
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 8)
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(row + 16 * quad + 8 * i), "f"(o[i + 2 * r]),
                   "f"(o[i + 4 + 2 * r]), "f"(o[i + 2 * r + 1]), "f"(o[i + 4 + 2 * r + 1])
                   : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 4)
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(row + 8 * quad + 8 * i), "f"(o[i + 2 * r]), "f"(o[i + 2 * r + 1])
                   : "memory");
  }
}

// Multiplies scores or probabilities by the scales of their keys or values, and by `factor`.
TS_DEVICE void apply_scales(float (&s)[kScores], u32 scales, float factor = 1.0f) {
  const u32 from = scales + 8 * (threadIdx.x & 3);
#pragma unroll
  for (int i = 0; i < kScores; i += 4) {
    float low, high;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "r"(from + 8 * i) : "memory");
    low *= factor, high *= factor;
    s[i] *= low, s[i + 1] *= high;
    s[i + 2] *= low, s[i + 3] *= high;
  }
}

// Probabilities of fp16 times scales of any size would leave its range. So they are multiplied by a power of two, and
// outputs divided by it at the end; it follows the largest scale seen as a row's base follows its peak. All threads of
// a warp hold the same.
class ScaleBase {
 public:
  // Of the scales of a step, of which a warp reads all, 0 where there is no key: what to multiply outputs so far by.
  template <int kCount>
  TS_DEVICE float follow(u32 scales) {
    u32 largest = 0;  // positive numbers are in the order of their bits
#pragma unroll
    for (int i = threadIdx.x & 31; i < kCount; i += 32) {
      float scale;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scale) : "r"(scales + 4 * i) : "memory");
      largest = max(largest, __float_as_uint(fabsf(scale)));
    }
    asm volatile("redux.sync.max.u32 %0, %0, 0xffffffff;" : "+r"(largest));
    const u32 exponent = min(largest >> 23, 253u);
    if (exponent <= exponent_ + kSlack) return 1.0f;
    const u32 risen = exponent - exponent_;
    exponent_ = exponent;
    return risen < 127 ? __uint_as_float((127 - risen) << 23) : 0.0f;
  }
  // What probabilities are multiplied by beside their scales: at most 2^(kRise + 1 + kSlack + kUp) < 65504 comes out.
  TS_DEVICE float factor() const { return __uint_as_float((254 - exponent_) << 23) * (1 << kUp); }
  TS_DEVICE float inverse() const { return __uint_as_float(exponent_ << 23) * (1.0f / (1 << kUp)); }

 private:
  static constexpr u32 kSlack = 2;
  static constexpr int kUp = 4;  // so that what is far below the largest keeps its bits
  u32 exponent_ = 8;  // with less the factor is infinite
};

}  // namespace ts
