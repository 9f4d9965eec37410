// What the generic CPU GEMM kernel is called with: the arguments of every CPU GEMM kernel, and what others are
// generated for. Of the former it reads neither c's place-holders nor the terms of the epilogue (extra, bias, scales of
// rows and columns, low, high): its epilogue is contract/gemm.h's list, whatever its order, computed as
// include/tilesmith/gemm_epilogue.hpp says. Its B is never packed, and k is never split.
#pragma once

#include "abi.h"

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

struct TsGemmForm {
  TsGemmElement a, b, c, d, bias;
  TsGemmElement scale;  // of integer weights
  bool row_a, row_b;    // row-major
  bool blocks;          // scales of blocks of 8-bit floats
  bool weights;         // B holds integer weights, with scales
  bool zero_points;
  TsGemmOperation operations[TS_GEMM_MAX_OPERATIONS];  // up to TS_END
};

// What one operation reads; the host's own structure (tilesmith::EpilogueOperand) is read as this one.
struct __attribute__((may_alias)) TsGemmOperand {
  const void* data;
  long long leading;
  long long batch;
  float low;
  float high;
};

struct TsGenericGemmArgs : TsGemmArgs {
  const TsGemmForm* form;
  const TsGemmOperand* operand;  // one for each operation
};
