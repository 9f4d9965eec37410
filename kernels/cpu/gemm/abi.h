/* What a GEMM kernel is called with; the table of functions is that of abi.h. Plain C, includes nothing. */
#ifndef TILESMITH_KERNELS_CPU_GEMM_ABI_H
#define TILESMITH_KERNELS_CPU_GEMM_ABI_H

#ifdef __cplusplus
extern "C" {
#endif

#define TS_GEMM_MAX_EXTRAS 4

/* One matrix per member of the batch. Element (i, j) of member b lies at index b * batch + i * leading + j of a
 * row-major matrix and at b * batch + j * leading + i of a column-major one. A batch stride of 0 shares the matrix. */
typedef struct TsMatrix {
  const void* data;
  long long leading;
  long long batch;
} TsMatrix;

/* Scales of blocks of 2^scale_shift elements of k: that of row i of A (of column i of B, or of its 128 columns from
 * 128 i on), block q and member b lies at index b * batch + i * row + q * block. */
typedef struct TsScales {
  const void* data;
  long long row;
  long long block;
  long long batch;
} TsScales;

/* One call: for every b < batch, with P = A B over k (A is m x k, B is k x n), in kernels with a second product
 * P = A B + A2 B2 over k and k2,
 *
 *   x[i][j]  = alpha * row_scale[i] * column_scale[j] * P[i][j] + beta * C[i][j] + bias
 *   y[i][j]  = activation(x[i][j])            or, in a gated kernel, activation(x[i][2 j]) * x[i][2 j + 1]
 *   y[i][j]  = y[i][j] + e0[i][j] + e1[i][j]  or  y[i][j] * e0[i][j] * e1[i][j], for the kernel's extras
 *   D[i][j]  = y limited to low .. high, rounded to D's type; amax = max(amax, |y|) before rounding
 *
 * D, C, the extras and every scale are row-major; n counts B's columns, so that D and the extras of a gated kernel have
 * n / 2 columns (n is even) and C, the bias and the scales n. Which terms exist is the kernel's choice, made when it
 * was generated; the factors alpha and beta always do. A, B, A2 and B2 are not read when alpha is 0, C is not read when
 * beta is 0. C and the extras may be D itself, but no other overlap is allowed. Sums are fp32, or int32 (modulo 2^32)
 * when A and B are int8. A kernel of int8 matrices that writes int32 has no other term than C: alpha is 0 or 1, beta
 * any whole number.
 *
 * Kernels with scales multiply what the scales make of A and B: of 8-bit floats, each element times that of its block
 * of 128 of k, in fp32; of integer weights (B), each weight, less its block's zero point where the kernel has them,
 * times the scale of its block, in fp32, rounded to A's type. A and B lie along k. int4 weights lie two in a byte, the
 * one of lower k in its low half, and B's strides count bytes.
 *
 * The order of additions depends on the kernel and on splits alone, never on threads. */
typedef struct TsGemmArgs {
  TsMatrix a;
  TsMatrix b;  /* kernels of packed B: `data` is what the pack kernel wrote; leading and batch are as packed */
  TsMatrix a2; /* m x k2 and k2 x n, of A's and B's types and orders */
  TsMatrix b2;
  TsMatrix c;
  TsMatrix extra[TS_GEMM_MAX_EXTRAS];
  TsScales scale_a; /* fp32 */
  TsScales scale_b; /* of the kernel's type */
  TsScales zero_b;  /* int8 */
  void* d;
  long long d_leading, d_batch;
  const void* bias;          /* n elements (along n), or m (along m); shared by the batch */
  const float* row_scale;    /* m, shared by the batch */
  const float* column_scale; /* n, shared by the batch */
  float* amax;               /* one number for the whole call; the caller sets it to what it starts from */
  void* workspace; /* workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages. A pack kernel's
                      workspace is its result: kept, it is the B of kernels of packed B. */
  long long m, n, k, k2, batch;
  long long splits;  /* pieces that kernels which split k cut it into; 1 or more */
  long long threads; /* how many threads will run the tasks: only the size of tasks depends on it; 1 or more */
  float alpha, beta;
  float low, high; /* limits of a clamping kernel */
  int scale_shift; /* 62: all of k is one block */
} TsGemmArgs;

#ifdef __cplusplus
}
#endif
#endif
