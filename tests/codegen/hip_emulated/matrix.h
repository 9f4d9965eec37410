// kernels/hip/common/matrix.h for a CPU: the lanes of a wave bring their operands, and the last one computes what the
// facts of specs/hip say that the instruction does.
#pragma once

#include "../../gpu/gemm/words.h"
#include "device.h"

namespace ts {

constexpr int kResults = cfg::kFragment * cfg::kFragment / cfg::kLanes;
template <bool kInteger>
struct MatrixSums {
  typedef float Type __attribute__((vector_size(4 * kResults)));
};
template <>
struct MatrixSums<true> {
  typedef int Type __attribute__((vector_size(4 * kResults)));
};
using Sums = MatrixSums<cfg::kIntegers>::Type;

namespace emulated {

constexpr int kType = TS_INPUT_TYPE;  // of the instruction's operands, a number of gpu/gemm/words.h
constexpr int kTypeBits = kType == TS_GEMM_BF16 || kType == TS_GEMM_F16 ? 16 : 8;
constexpr int kLaneElements = cfg::kOperandWords * 32 / kTypeBits;

inline double value_of(u32 bits) {
  if constexpr (kType == TS_GEMM_BF16) return from_bf16(static_cast<u16>(bits));
  if constexpr (kType == TS_GEMM_F16) return from_f16(static_cast<u16>(bits));
  if constexpr (kType == TS_GEMM_S8) return static_cast<signed char>(bits);
  constexpr int kMantissa = kType == TS_GEMM_E4M3 ? 3 : 2, kBias = (kType == TS_GEMM_E4M3 ? 7 : 15) + cfg::kFnuz;
  if (cfg::kFnuz ? bits == 0x80 : kType == TS_GEMM_E4M3 && (bits & 0x7f) == 0x7f) return NAN;
  const int exponent = static_cast<int>(bits & 0x7f) >> kMantissa, mantissa = static_cast<int>(bits) & ((1 << kMantissa) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                                         : std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
  return bits & 0x80 ? -magnitude : magnitude;
}

struct Wave {
  Block::Meeting meeting;
  const u32* a[cfg::kLanes];
  const u32* b[cfg::kLanes];
  Sums* sums[cfg::kLanes];

  // Element k of row `row`, from the lane that brings it.
  static double element(const u32* const (&operand)[cfg::kLanes], int row, int k) {
    const int group = cfg::kGroupsK == 1 ? 0 : k / kLaneElements, at = k % kLaneElements;
    const u32 word = operand[group * cfg::kFragment + row][at * kTypeBits / 32];
    return value_of(word >> (at * kTypeBits % 32) & (kTypeBits == 16 ? 0xffffu : 0xffu));
  }

  void multiply() {
    constexpr int kSide = cfg::kFragment, kDepth = cfg::kGroupsK * kLaneElements;
    constexpr int kRun = cfg::kRunOfResults, kHalves = cfg::kLanes / kSide;
    static double left[kSide][kDepth], right[kSide][kDepth];
    for (int row = 0; row < kSide; ++row)
      for (int k = 0; k < kDepth; ++k) {
        left[row][k] = element(a, row, k);
        right[row][k] = element(b, row, k);
      }
    for (int lane = 0; lane < cfg::kLanes; ++lane)
      for (int r = 0; r < kResults; ++r) {
        const int row = (r / kRun * kHalves + lane / kSide) * kRun + r % kRun, column = lane % kSide;
        double sum = 0;
        for (int k = 0; k < kDepth; ++k) sum += left[row][k] * right[column][k];
        if constexpr (cfg::kIntegers)
          (*sums[lane])[r] += static_cast<int>(sum);
        else
          (*sums[lane])[r] += static_cast<float>(sum);
      }
  }
};

}  // namespace emulated

inline void multiply_add(const u32 (&a)[cfg::kOperandWords], const u32 (&b)[cfg::kOperandWords], Sums& sums) {
  static emulated::Wave waves[emulated::kMostWaves];
  const int thread = thread_index();
  emulated::Wave& wave = waves[thread / cfg::kLanes];
  wave.a[thread % cfg::kLanes] = a;
  wave.b[thread % cfg::kLanes] = b;
  wave.sums[thread % cfg::kLanes] = &sums;
  emulated::Block::running()->meet(wave.meeting, cfg::kLanes, [&] { wave.multiply(); });
}

}  // namespace ts
