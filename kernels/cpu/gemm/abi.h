// What a CPU GEMM kernel is called with. The meaning is that of contract/gemm.h.
//
// The epilogue of a CPU kernel, with P as there:
//
//   x[i][j]  = alpha * row_scale[i] * column_scale[j] * P[i][j] + beta * C[i][j] + bias
//   y[i][j]  = activation(x[i][j])            or, in a gated kernel, activation(x[i][2 j]) * x[i][2 j + 1]
//   y[i][j]  = y[i][j] + e0[i][j] + e1[i][j]  or  y[i][j] * e0[i][j] * e1[i][j], for the kernel's extras
//   D[i][j]  = y limited to low .. high, rounded to D's type; amax = max(amax, |y|) before rounding
//
// Which terms exist is the kernel's choice, made when it was generated; the factors alpha and beta always do. C and the
// extras are row-major; D and the extras of a gated kernel have n / 2 columns, C, the bias and the scales n. C is not
// read when beta is 0. C and the extras may be D itself, but no other overlap is allowed. A kernel of int8 matrices
// that writes int32 has no other term than C: alpha is 0 or 1, beta any whole number.
//
// B's strides count bytes where B holds int4 weights.
#pragma once

#include "../../contract/gemm.h"

#define TS_GEMM_MAX_EXTRAS 4

// A kernel of packed B reads as b.data what a pack kernel wrote; b.leading and b.batch are those of the matrix that was
// packed. A pack kernel's workspace is its result: kept, it is the B of kernels of packed B.
struct TsGemmArgs : TsGemmCall {
  TsMatrix c;
  TsMatrix extra[TS_GEMM_MAX_EXTRAS];
  const void* bias;           // n elements (along n), or m (along m); shared by the batch
  const float* row_scale;     // m, shared by the batch
  const float* column_scale;  // n, shared by the batch
  float* amax;                // one number for the whole call; the caller sets it to what it starts from
  void* workspace;            // workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages
  long long m, n, k, k2, batch;
  long long splits;   // 1 or more; 0: of a blocked kernel the first stage alone will run, to pack B
  long long threads;  // how many threads will run the tasks: only the size of tasks depends on it; 1 or more
  float beta;
  float low, high;  // limits of a clamping kernel
};
