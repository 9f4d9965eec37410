// What a GEMM kernel for AMD GPUs is called with. The meaning is that of contract/gemm.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg and the macros TS_ENTRY and TS_MATRIX_BUILTIN,
// followed by one include: "hip/gemm/gemm.h", which says what the table holds and how the entry is launched.
//
// m, n and batch are at least 1. With a k of 0, sums are zeros, and A and B are not read.
#pragma once

#include "../../contract/gemm.h"
#include "../../gpu/gemm/words.h"

// What an epilogue operation reads. Strides in elements; element (i, j) of member z of the batch is at data + z *
// batch_stride + i * row_stride + j, element i of a vector at data + z * batch_stride + i.
struct TsHipGemmOperand {
  const void* data;
  long long row_stride, batch_stride;
  float value, limit;
};

// Passed by value. scale_a and scale_b of the call point to one float32 each, or are null: D is scaled by both.
struct TsHipGemmArgs : TsGemmCall {
  TsHipGemmOperand epilogue[TS_GEMM_EPILOGUE_MAX];
  int m, n, k, batch;
  int band;  // tiles are walked in bands of so many tile rows, across the band first
};
