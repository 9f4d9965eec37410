// What a GEMM call means, for kernels of every backend. The host includes this file, and the code generator copies its
// text into every generated source, so both sides agree by construction. It includes nothing and needs no library: a
// CPU kernel's compile time is mostly headers, and CUDA kernels are freestanding.
//
// For every b < batch, with A m x k, B k x n and D m x n:
//
//   P[i][j] = sum over k of A[i][k] * B[k][j]       with mm_plus_mm, plus the sum over k2 of A2[i][k2] * B2[k2][j]
//   D       = epilogue(alpha * P), rounded to D's type
//
// Sums are fp32; of 8-bit integers they are int32, modulo 2^32. The epilogue is fixed when a kernel is generated; what
// it may be, and in which order, each backend's abi.h says. A gated epilogue joins columns 2j and 2j + 1 of P (n is
// even) and D then has n / 2 columns. n always counts B's columns.
//
// A, B, A2 and B2 are row-major (their columns are contiguous) or column-major (their rows are contiguous), D is
// row-major. A, B, A2 and B2 are not read when alpha is 0.
//
// Scales along k. Kernels with scales multiply what the scales make of A and B:
//   8-bit floats       each element times the scale of its block of 128 elements of k, in fp32
//   integer weights    of B beside an A of 16 bits: (weight - its block's zero point, where the kernel has zero points)
//                      * the scale of its block, in fp32, rounded to A's type. A block has 2^scale_shift elements of k.
//                      int4 weights lie two in a byte, the one of lower k in its low half
// A and B lie along k in both cases.
//
// Splits cut k into parts. Their partials are added in the order of the parts, unless the kernel adds them as they are
// ready; so the order of additions depends on the kernel and on `splits` alone, never on which part is ready first.
//
// The sizes m, n, k, k2, batch and splits stand in each backend's own arguments, because CUDA kernels count in 32 bits.
#pragma once

// One matrix per member of the batch. Element (i, j) of member b lies at index b * batch + i * leading + j of a
// row-major matrix and at b * batch + j * leading + i of a column-major one. A batch stride of 0 shares the matrix.
struct TsMatrix {
  const void* data;
  long long leading;
  long long batch;
};

// Scales of blocks of k. The scale of row i of A and block q of member b lies at index b * batch + i * row + q * block.
// For 8-bit floats i counts rows of A, and of B runs of 128 columns; for weights it counts columns of B.
struct TsScales {
  const void* data;
  long long row;
  long long block;
  long long batch;
};

// The arguments that kernels of every backend read alike. The CPU's arguments derive from it; CUDA's have its fields
// one by one (cuda/gemm/abi.h says why).
struct TsGemmCall {
  TsMatrix a;
  TsMatrix b;
  TsMatrix a2;  // m x k2 and k2 x n, of the types and orders of a and b; with mm_plus_mm alone
  TsMatrix b2;
  TsScales scale_a;  // fp32
  TsScales scale_b;  // fp32; of weights fp32 or A's type
  TsScales zero_b;   // int8, of weights with zero points
  void* d;
  long long d_leading, d_batch;
  float alpha;
  int scale_shift;
};
