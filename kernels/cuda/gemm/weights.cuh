// Integer weights to pairs of 16-bit floats of a's type, and their scales. An integer's bits become the lowest bits of
// a number whose unit in the last place is 1; that number, and the zero point, are then subtracted. This is exact in
// bf16 and in f16.
#pragma once

#include "types.cuh"

namespace ts::gemm {

constexpr bool kBf16 = cfg::kTypeA == TS_GEMM_BF16;
__host__ __device__ constexpr u32 twice(u32 half) {
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

// The number that an integer comes with: 128 of bf16, 1024 of f16, and what turning the sign bit adds. bf16 has no room
// for the eighth bit of int8, which is taken away by itself.
constexpr bool kSignApart = kBf16 && cfg::kTypeB == TS_GEMM_S8;
constexpr int kRaise = kSignApart ? 0 : (kBf16 ? 128 : 1024) + (cfg::kTypeB == TS_GEMM_S4 ? 8 : 128);
constexpr u32 kRaiseBits = twice(cfg::kTypeB == TS_GEMM_S4 ? (kBf16 ? 0x4308 : 0x6408) : 0x6480);
constexpr u32 kOne = twice(kBf16 ? 0x3f80 : 0x3c00);

// The scale and the zero point of a block of weights as they lie in memory. They are not converted where they are
// loaded, so that the load is not waited for there.
struct StoredScale {
  u32 bits;
  int zero;
};
// The scales and zero points of a column of b.
struct ScaleLine {
  const char* scales;
  const signed char* zeros;

  TS_DEVICE ScaleLine(const TsCudaGemmArgs& args, int batch, int column)
      : scales(static_cast<const char*>(args.scale_b) +
               (batch * args.scale_b_batch_stride + column * args.scale_b_row_stride) * bytes_of(cfg::kTypeScale)),
        zeros(static_cast<const signed char*>(args.zero_b) + batch * args.zero_b_batch_stride + column * args.zero_b_row_stride) {}
  // At element k.
  TS_DEVICE StoredScale load(const TsCudaGemmArgs& args, int k) const {
    constexpr int kBytes = bytes_of(cfg::kTypeScale);
    const int block = k >> args.scale_shift;
    StoredScale x{load_bits<kBytes>(scales + block * args.scale_b_block_stride * kBytes), 0};
    if constexpr (cfg::kZeroPoints) x.zero = __ldg(zeros + block * args.zero_b_block_stride);
    return x;
  }
};

// A scale and a zero point in the form that the arithmetic takes.
struct Scale {
  u32 factor;  // two of a's type, or a float
  u32 minus;   // two of a's type: -(kRaise + zero point)

  Scale() = default;
  TS_DEVICE explicit Scale(const StoredScale& x)
      : factor(bytes_of(cfg::kTypeScale) == 4 ? x.bits : twice(x.bits)), minus(0) {
    const float taken = static_cast<float>(-kRaise - x.zero);
    minus = pack_pair<cfg::kTypeA>(taken, taken).words[0];
  }
};

// The integers that `mask` leaves in a word, raised to floats: in one instruction, which the compiler makes two of.
template <u32 kMask>
TS_DEVICE u32 raised(u32 word) {
  u32 x;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(x) : "r"(word), "n"(kMask), "n"(kRaiseBits));  // word & mask ^ bits
  return x;
}

// Of eight int4 in a word, those at I and I + 4.
template <int I>
TS_DEVICE u32 pair_of_int4(u32 word, u32 minus) {
  return fma_pair(raised<0x000f000fu>(word >> 4 * I), kOne, minus);
}

// Of four int8 in a word, those at I and I + 2.
template <int I>
TS_DEVICE u32 pair_of_int8(u32 word, u32 minus) {
  const u32 w = word >> 8 * I;
  if constexpr (kSignApart) {
    // 128 + the low seven bits, less 128 or, where the sign is set, 256.
    const u32 pair = fma_pair((w & 0x00800080u) | twice(0x4300), twice(0xbf80), (w & 0x007f007fu) | twice(0x4300));
    return cfg::kZeroPoints ? fma_pair(pair, kOne, minus) : pair;
  } else {
    return fma_pair(raised<0x00ff00ffu>(w), kOne, minus);
  }
}

// Both are rounded once, because an integer of 9 bits times a scale of 16 bits is exact in float32.
TS_DEVICE u32 scaled(u32 pair, u32 factor) {
  if constexpr (cfg::kTypeScale == TS_GEMM_F32) {
    float low, high;
    unpack<cfg::kTypeA>({pair}, low, high);
    return pack_pair<cfg::kTypeA>(low * as_float(factor), high * as_float(factor)).words[0];
  } else {
    return fma_pair(pair, factor, twice(0x8000));
  }
}

}  // namespace ts::gemm
