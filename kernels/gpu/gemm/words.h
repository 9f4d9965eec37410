// The words in which GPU kernels are told what a GEMM is made of: types and the operations of the epilogue, the same
// numbers for every GPU backend. They are fixed when a kernel is generated.
//
// The epilogue is a list of operations done in float32 in the order of the list; beta * C is the operation TS_GEMM_ADD
// with `value` = beta.
#pragma once

/* Element types, the values of cfg::kTypeA, kTypeB, kTypeD and cfg::kEpilogueTypes. CUDA multiplies
 * float32 operands in tf32. */
enum {
  TS_GEMM_F32 = 0,
  TS_GEMM_BF16 = 1,
  TS_GEMM_F16 = 2,
  TS_GEMM_E4M3 = 3,
  TS_GEMM_E5M2 = 4,
  TS_GEMM_S8 = 5,
  TS_GEMM_S32 = 6,
  TS_GEMM_S4 = 7 /* b alone, as weights: two in a byte, the one of lower k in its low half; strides count elements */
};

/* Operations of the epilogue, the values of cfg::kEpilogue. `v` is the value, (i, j) its row and column in a x b. */
enum {
  TS_GEMM_NONE = 0,
  TS_GEMM_ADD = 1,       /* v += value * tensor[i][j]; a value of 0 leaves the tensor unread. Of int32 results, whose
                            tensor is int32 and value a whole number: modulo 2^32 */
  TS_GEMM_MULTIPLY = 2,  /* v *= tensor[i][j] */
  TS_GEMM_BIAS_N = 3,    /* v += vector[j] */
  TS_GEMM_BIAS_M = 4,    /* v += vector[i] */
  TS_GEMM_SCALE_N = 5,   /* v *= vector[j] */
  TS_GEMM_SCALE_M = 6,   /* v *= vector[i] */
  TS_GEMM_RELU = 7,      /* NaN stays NaN */
  TS_GEMM_GELU = 8,      /* v * (1 + erf(v / sqrt(2))) / 2 */
  TS_GEMM_GELU_TANH = 9, /* v * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3))) / 2 */
  TS_GEMM_SILU = 10,     /* v * sigmoid(v) */
  TS_GEMM_SIGMOID = 11,
  TS_GEMM_TANH = 12,
  TS_GEMM_CLAMP = 13, /* to value .. limit; NaN stays NaN */
  /* Gates join columns 2j and 2j + 1 into column j of d, which then has n / 2 columns (n even): act(v[2j]) * v[2j + 1].
   * There is one gate at most. What follows it sees the n / 2 columns, its tensors and vectors too. */
  TS_GEMM_GATE_SILU = 14,
  TS_GEMM_GATE_GELU = 15,
  TS_GEMM_GATE_GELU_TANH = 16,
  TS_GEMM_GATE_SIGMOID = 17,
  TS_GEMM_GATE_RELU = 18,
  TS_GEMM_AMAX = 19 /* *data (float32, at least 0 beforehand) becomes the larger of itself and every |v|; last */
};
#define TS_GEMM_EPILOGUE_MAX 8
