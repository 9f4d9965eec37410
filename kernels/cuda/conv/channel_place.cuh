// A result's channel, as gemm/epilogue.cuh asks for places: channels are rows, of which there is one.
#pragma once

#include "abi.h"

namespace ts::conv {

struct ChannelPlace {
  int row, column, row_limit, column_limit;
  TS_DEVICE i64 entry_n(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 entry(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand&, int, int) const { return 0; }
  TS_DEVICE i64 column_step(const TsCudaConvOperand&) const { return 0; }
};

}  // namespace ts::conv
