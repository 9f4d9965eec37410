// Element types of the GEMM templates: sizes, and pairs of neighbouring elements to and from float32.
#pragma once

#include "../common/common.cuh"
#include "abi.h"

namespace ts::gemm {

__host__ __device__ constexpr int bytes_of(int type) {
  return type == TS_GEMM_F32 || type == TS_GEMM_S32 ? 4 : (type == TS_GEMM_BF16 || type == TS_GEMM_F16 ? 2 : 1);
}
// Of an element, or of two int4, which share a byte.
__host__ __device__ constexpr int bits_of_type(int type) {
  return type == TS_GEMM_S4 ? 4 : 8 * bytes_of(type);
}
constexpr bool kWeights = cfg::kScaling == TS_GEMM_SCALE_WEIGHTS;
static_assert(!kWeights || ((cfg::kTypeA == TS_GEMM_BF16 || cfg::kTypeA == TS_GEMM_F16) &&
                            (cfg::kTypeB == TS_GEMM_S8 || cfg::kTypeB == TS_GEMM_S4)),
              "weights are integers beside an a of 16 bits");
__host__ __device__ constexpr bool is_fp8(int type) {
  return type == TS_GEMM_E4M3 || type == TS_GEMM_E5M2;
}

// Two neighbouring elements as they lie in memory, in the low bits of `words`.
template <int kType>
struct Pair {
  u32 words[bytes_of(kType) == 4 ? 2 : 1];
};

TS_DEVICE float as_float(u32 x) {
  return __uint_as_float(x);
}

// The type of the sums.
template <bool kInteger>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<true> {
  using Type = int;
};
using Sum = SumOf<cfg::kTypeA == TS_GEMM_S8>::Type;

TS_DEVICE u32 bits_of(float x) {
  return __float_as_uint(x);
}
TS_DEVICE u32 bits_of(int x) {
  return static_cast<u32>(x);
}
TS_DEVICE Sum sum_of_bits(u32 x) {
  return __builtin_bit_cast(Sum, x);
}
// A sum as the epilogue takes it. Integer output is the sum itself, in the bits of a float.
TS_DEVICE float result_of(Sum sum, float factor) {
  if constexpr (cfg::kTypeD == TS_GEMM_S32) return as_float(bits_of(sum));
  return static_cast<float>(sum) * factor;
}

template <int kType>
TS_DEVICE void unpack(const Pair<kType>& p, float& low, float& high) {
  const u32 w = p.words[0];
  if constexpr (kType == TS_GEMM_F32) {
    low = as_float(w);
    high = as_float(p.words[1]);
  } else if constexpr (kType == TS_GEMM_S32) {
    low = static_cast<float>(static_cast<int>(w));
    high = static_cast<float>(static_cast<int>(p.words[1]));
  } else if constexpr (kType == TS_GEMM_BF16) {
    low = as_float(w << 16);
    high = as_float(w & 0xffff0000u);
  } else if constexpr (kType == TS_GEMM_S8) {
    low = static_cast<float>(static_cast<signed char>(w & 0xff));
    high = static_cast<float>(static_cast<signed char>(w >> 8 & 0xff));
  } else {
    u32 halves = w;
    if constexpr (kType == TS_GEMM_E4M3)
      asm("{ .reg .b16 x; cvt.u16.u32 x, %1; cvt.rn.f16x2.e4m3x2 %0, x; }" : "=r"(halves) : "r"(w));
    if constexpr (kType == TS_GEMM_E5M2)
      asm("{ .reg .b16 x; cvt.u16.u32 x, %1; cvt.rn.f16x2.e5m2x2 %0, x; }" : "=r"(halves) : "r"(w));
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(halves));
  }
}

TS_DEVICE int saturate_s8(float x) {
  int r;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r & 0xff;
}

// Rounds to nearest even; fp8 and s8 saturate. An s32 passes through with its bits: integer sums are stored as they
// are.
template <int kType>
TS_DEVICE Pair<kType> pack_pair(float low, float high) {
  Pair<kType> p;
  if constexpr (bytes_of(kType) == 4) {
    p.words[0] = __float_as_uint(low);
    p.words[1] = __float_as_uint(high);
  } else if constexpr (kType == TS_GEMM_BF16) {
    p.words[0] = pack<true>(low, high);
  } else if constexpr (kType == TS_GEMM_F16) {
    p.words[0] = pack<false>(low, high);
  } else if constexpr (kType == TS_GEMM_S8) {
    p.words[0] = saturate_s8(low) | saturate_s8(high) << 8;
  } else if constexpr (kType == TS_GEMM_E4M3) {
    asm("{ .reg .b16 x; cvt.rn.satfinite.e4m3x2.f32 x, %1, %2; cvt.u32.u16 %0, x; }"
        : "=r"(p.words[0])
        : "f"(high), "f"(low));
  } else {
    asm("{ .reg .b16 x; cvt.rn.satfinite.e5m2x2.f32 x, %1, %2; cvt.u32.u16 %0, x; }"
        : "=r"(p.words[0])
        : "f"(high), "f"(low));
  }
  return p;
}

// One element of memory in the low bits of a word.
template <int kBytes>
TS_DEVICE u32 load_bits(const char* p) {
  u32 r;
  if constexpr (kBytes == 4) asm volatile("ld.global.b32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  if constexpr (kBytes == 2)
    asm volatile("{ .reg .b16 x; ld.global.b16 x, [%1]; cvt.u32.u16 %0, x; }" : "=r"(r) : "l"(p) : "memory");
  if constexpr (kBytes == 1) asm volatile("ld.global.u8 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  return r;
}
template <int kBytes>
TS_DEVICE void store_bits(char* p, u32 x) {
  if constexpr (kBytes == 4) asm volatile("st.global.b32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
  if constexpr (kBytes == 2)
    asm volatile("{ .reg .b16 x; cvt.u16.u32 x, %1; st.global.b16 [%0], x; }" ::"l"(p), "r"(x) : "memory");
  if constexpr (kBytes == 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

// A pair at `p`, of which the first `count` elements exist (2, 1 or less); the others read as zero. kAligned: `p` is a
// multiple of the pair's size, and a pair exists as a whole or not at all; else its second element lies `step` bytes on.
template <int kType, bool kAligned>
TS_DEVICE Pair<kType> load_pair(const char* p, int count, i64 step = bytes_of(kType)) {
  constexpr int kBytes = bytes_of(kType);
  Pair<kType> r = {};
  if constexpr (kAligned) {
    if (count >= 2) {
      if constexpr (kBytes == 4)
        asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(r.words[0]), "=r"(r.words[1]) : "l"(p) : "memory");
      else
        r.words[0] = load_bits<2 * kBytes>(p);
    }
    return r;
  }
  const u32 first = count >= 1 ? load_bits<kBytes>(p) : 0;
  const u32 second = count >= 2 ? load_bits<kBytes>(p + step) : 0;
  if constexpr (kBytes == 4) {
    r.words[0] = first;
    r.words[1] = second;
  } else {
    r.words[0] = first | second << 8 * kBytes;
  }
  return r;
}
template <int kType, bool kAligned>
TS_DEVICE void store_pair(char* p, const Pair<kType>& x, int count, i64 step = bytes_of(kType)) {
  constexpr int kBytes = bytes_of(kType);
  if constexpr (kAligned) {
    if (count >= 2) {
      if constexpr (kBytes == 4)
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(p), "r"(x.words[0]), "r"(x.words[1]) : "memory");
      else
        store_bits<2 * kBytes>(p, x.words[0]);
      return;
    }
  }
  if (count >= 1) store_bits<kBytes>(p, x.words[0]);
  if (count >= 2) {
    if constexpr (kBytes == 4)
      store_bits<4>(p + step, x.words[1]);
    else
      store_bits<kBytes>(p + step, x.words[0] >> 8 * kBytes);
  }
}

// Sixteen bytes at a time.
TS_DEVICE void load_chunk(u32 (&r)[4], const char* p, bool valid) {
  r[0] = r[1] = r[2] = r[3] = 0;
  if (valid)
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "l"(p)
                 : "memory");
}
TS_DEVICE void load_chunk_uncached(u32 (&r)[4], const void* p) {
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p)
               : "memory");
}
TS_DEVICE void load_shared(u32 (&r)[4], u32 address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
TS_DEVICE void store_shared(u32 address, const u32 (&r)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace ts::gemm
