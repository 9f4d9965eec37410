// Types of elements and operations of an epilogue, for kernels that learn them at run time.
#pragma once

#define TS_GEMM_MAX_OPERATIONS 8

enum TsGemmElement : unsigned char {
  TS_FP32,
  TS_BF16,
  TS_FP16,
  TS_INT8,
  TS_INT32,
  TS_FP8E4M3,
  TS_FP8E5M2,
  TS_INT4,  // two of them in a byte, of B
};

// The operations of tilesmith::EpilogueOp, with its numbers.
enum TsGemmOperation : unsigned char {
  TS_END,
  TS_BIAS,
  TS_BIAS_M,
  TS_SCALE_N,
  TS_SCALE_M,
  TS_ADD,
  TS_MULTIPLY,
  TS_RELU,
  TS_GELU,
  TS_GELU_TANH,
  TS_SILU,
  TS_SIGMOID,
  TS_TANH,
  TS_CLAMP,
  TS_GLU,
  TS_REGLU,
  TS_GEGLU,
  TS_GEGLU_TANH,
  TS_SWIGLU,
  TS_AMAX,
};
