// What a CPU convolution kernel is called with. The meaning is that of contract/conv.h.
//
// Forward and backward data pass each sum through the operations of the epilogue, in their order, in fp32, before it is
// rounded once to the result's type: bias and scale_n read the result's channels (groups * k, or groups * c), add and
// multiply a tensor of the result's type and sizes with strides of its own, the rest the sum alone.
#pragma once

#include "../../contract/conv.h"
#include "../gemm/operations.h"

// What one operation reads; the host's own structure (tilesmith::ConvOperand) is read as this one.
struct __attribute__((may_alias)) TsConvOperand {
  const void* data;
  TsConvStrides strides;  // of add and multiply
  float low, high;        // of clamp
};

struct TsConvArgs : TsConvCall {
  TsGemmElement out_type, bias_type;
  TsGemmOperation operations[TS_GEMM_MAX_OPERATIONS];  // up to TS_END
  const TsConvOperand* operand;                        // one for each operation
  void* workspace;    // workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages
  long long threads;  // how many threads will run the tasks: only the size of tasks depends on it; 1 or more
  bool packed_w;      // the workspace holds packed w, or is to hold it after stage 1; else stage 2 may do without it
};
