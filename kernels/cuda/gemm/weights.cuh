// Integer weights to pairs of 16-bit floats of a's type, and their scales. An integer's bits go into the mantissa of a
// number whose last place is 1, from which that number is then taken away: exact in bf16 and f16 alike.
#pragma once

#include "types.cuh"

namespace ts::gemm {

constexpr bool kBf16 = cfg::kTypeA == TS_GEMM_BF16;
constexpr u32 twice(u32 half) {
  return half << 16 | half;
}

TS_DEVICE u32 fma_pair(u32 a, u32 b, u32 c) {
  u32 d;
  if constexpr (kBf16)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// Of eight int4 in a word, those at I and I + 4.
template <int I>
TS_DEVICE u32 pair_of_int4(u32 word) {
  constexpr u32 kZero = twice(kBf16 ? 0x4308 : 0x6408);   // 128 + 8, 1024 + 8
  constexpr u32 kMinus = twice(kBf16 ? 0xc308 : 0xe408);  // the sign bit is turned, which adds 8
  constexpr u32 kOne = twice(kBf16 ? 0x3f80 : 0x3c00);
  return fma_pair((word >> 4 * I & 0x000f000fu) ^ kZero, kOne, kMinus);
}

// Of four int8 in a word, those at I and I + 2.
template <int I>
TS_DEVICE u32 pair_of_int8(u32 word) {
  const u32 w = word >> 8 * I;
  if constexpr (kBf16) {
    // 128 + the low seven bits, less 128 or, where the sign is set, 256.
    return fma_pair((w & 0x00800080u) | twice(0x4300), twice(0xbf80), (w & 0x007f007fu) | twice(0x4300));
  } else {
    return fma_pair((w & 0x00ff00ffu) ^ twice(0x6480), twice(0x3c00), twice(0xe480));  // 1024 + 128
  }
}

// A scale as the products take it: two of a's type, or a float.
using Scale = u32;
TS_DEVICE Scale load_scale(const TsCudaGemmArgs& args, i64 index, bool valid) {
  constexpr int kBytes = bytes_of(cfg::kTypeScale);
  if (!valid) return 0;
  const u32 bits = load_bits<kBytes>(static_cast<const char*>(args.scale_b) + index * kBytes);
  return kBytes == 4 ? bits : twice(bits);
}
// Where the scale of column `column` of batch entry `batch` at element k lies.
TS_DEVICE i64 scale_index(const TsCudaGemmArgs& args, int batch, int column, int k) {
  return batch * args.scale_b_batch_stride + column * args.scale_b_row_stride +
         (k >> args.scale_shift) * args.scale_b_block_stride;
}

// Both rounded once: the product of an integer of 8 bits and a scale of 16 is exact in float32.
TS_DEVICE u32 scaled(u32 pair, Scale scale) {
  if constexpr (cfg::kTypeScale == TS_GEMM_F32) {
    float low, high;
    unpack<cfg::kTypeA>({pair}, low, high);
    return pack_pair<cfg::kTypeA>(low * as_float(scale), high * as_float(scale)).words[0];
  } else {
    return fma_pair(pair, scale, twice(0x8000));
  }
}

}  // namespace ts::gemm
