// The matrix instruction of a kernel: TS_MATRIX_BUILTIN, MFMA or WMMA, on fragments as they lie in registers.
//
// One instruction multiplies a square fragment of kFragment rows by one of kFragment columns. A lane brings
// sizeof(MatrixOperand) bytes along k of row `lane % kFragment` of either; the lanes that share a row bring parts of k
// that follow one another (kGroupsK of them; 1: all bring the same). Of the result a lane has kResults values of column
// `lane % kFragment`, in rows that fragment_row tells. The facts stand in specs/hip.
#pragma once

#include "device.h"

namespace ts {

// How an instruction takes its operands: the values of cfg::kOperand, in the order of HipOperand (spec/hip/spec.hpp).
enum { kOperandF16 = 0, kOperandBf16 = 1, kOperandBf16Bits = 2, kOperandBytes = 3 };

template <int kKind, int kWords>
struct MatrixOperandOf;
template <int kWords>
struct MatrixOperandOf<kOperandF16, kWords> {
  typedef _Float16 Type __attribute__((vector_size(4 * kWords)));
};
template <int kWords>
struct MatrixOperandOf<kOperandBf16, kWords> {
  typedef __bf16 Type __attribute__((vector_size(4 * kWords)));
};
template <int kWords>
struct MatrixOperandOf<kOperandBf16Bits, kWords> {
  typedef short Type __attribute__((vector_size(4 * kWords)));
};
template <int kWords>
struct MatrixOperandOf<kOperandBytes, kWords> {
  typedef int Type __attribute__((vector_size(4 * kWords)));
};
template <>
struct MatrixOperandOf<kOperandBytes, 1> {
  using Type = int;
};
#if defined(__GFX9__)
template <>
struct MatrixOperandOf<kOperandBytes, 2> {
  using Type = long;
};
#endif
using MatrixOperand = MatrixOperandOf<cfg::kOperand, cfg::kOperandWords>::Type;

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

#if !defined(__GFX9__)
// A template, so that only the call which suits the instruction is looked at. Integers are signed, and sums wrap.
template <class Operand, class AnySums>
TS_DEVICE AnySums multiply_add_on_rdna(const Operand& a, const Operand& b, const AnySums& sums) {
  if constexpr (cfg::kIntegers)
    return TS_MATRIX_BUILTIN(true, a, true, b, sums, false);
  else
    return TS_MATRIX_BUILTIN(a, b, sums);
}
#endif

// sums += the product of the fragments whose words are given.
TS_DEVICE void multiply_add(const u32 (&a)[cfg::kOperandWords], const u32 (&b)[cfg::kOperandWords], Sums& sums) {
  struct Words {
    u32 words[cfg::kOperandWords];
  };
  Words wa, wb;
#pragma unroll
  for (int i = 0; i < cfg::kOperandWords; ++i) {
    wa.words[i] = a[i];
    wb.words[i] = b[i];
  }
  const auto left = __builtin_bit_cast(MatrixOperand, wa);
  const auto right = __builtin_bit_cast(MatrixOperand, wb);
#if defined(__GFX9__)
  sums = TS_MATRIX_BUILTIN(left, right, sums, 0, 0, 0);
#else
  sums = multiply_add_on_rdna(left, right, sums);
#endif
}

}  // namespace ts
