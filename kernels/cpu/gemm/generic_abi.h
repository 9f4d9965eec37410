// What the generic CPU GEMM kernel is called with: the arguments of every CPU GEMM kernel, and what others are
// generated for. Of the former it reads neither c's place-holders nor the terms of the epilogue (extra, bias, scales of
// rows and columns, low, high): its epilogue is contract/gemm.h's list, whatever its order, computed as
// include/tilesmith/gemm_epilogue.hpp says. Its B is never packed, and k is never split.
#pragma once

#include "abi.h"
#include "operations.h"

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
